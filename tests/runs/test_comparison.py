import re
import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.runs.comparison import (
    UNDIVIDED,
    RunScores,
    bootstrap_interval,
    compare_runs,
    table_lines,
)
from agents.runs.score_text import score_text
from agents.settings.config_file import load_config


def run(points=((1000, 0.0),), name="run", pace=1e-3, preset="pendulum", **changed):
    """A run with these steps and scores; `pace` is in minutes per step."""
    steps, values = np.array(points, np.float64).T
    config = load_config(preset, **changed).settings()
    return RunScores(name, config, steps, pace * steps, values, rate=100.0)


def labels(groups):
    return [(group.env, group.label, len(group.runs)) for group in groups]


def test_groups_are_labeled_by_the_settings_that_differ():
    runs = [
        run(learning_rate=rate, discount=discount, seed=seed, layers=(32,))
        for rate in (1e-3, 3e-4)
        for discount in (0.95, 0.99)
        for seed in range(2)
    ]
    assert labels(compare_runs(runs)) == [
        ("Pendulum-v1", "learning_rate=0.0003, discount=0.95", 2),
        ("Pendulum-v1", "learning_rate=0.0003, discount=0.99", 2),
        ("Pendulum-v1", "learning_rate=0.001, discount=0.95", 2),
        ("Pendulum-v1", "learning_rate=0.001, discount=0.99", 2),
    ]


@pytest.mark.parametrize(
    "setting, values, expected",
    [
        ("num_envs", [64, 8], ["num_envs=8", "num_envs=64"]),  # By size, not by text.
        ("layers", [(64, 64), (), (8,)], ["layers=", "layers=64,64", "layers=8"]),
        ("normalize_value", [True, False], ["normalize_value=false", "normalize_value=true"]),
        (
            "env_kwargs",
            [{"g": 9.81}, {"g": 2}],
            ['env_kwargs={"g": 2}', 'env_kwargs={"g": 9.81}'],
        ),
        ("objective", ["kl", "clip"], ["objective=clip", "objective=kl"]),
        ("entropy_coef", [0.1 + 0.2, 0], ["entropy_coef=0", "entropy_coef=0.3"]),
    ],
)
def test_values_are_spelled_as_on_the_command_line(setting, values, expected):
    groups = compare_runs([run(**{setting: value}) for value in values])
    assert [group.label for group in groups] == expected


def test_runs_that_differ_in_their_seed_only_are_one_group():
    assert labels(compare_runs([run(seed=seed) for seed in range(3)])) == [
        ("Pendulum-v1", UNDIVIDED, 3)
    ]
    assert labels(compare_runs([run()])) == [("Pendulum-v1", UNDIVIDED, 1)]


def test_environments_are_apart_and_what_differs_between_them_only_is_no_label():
    runs = [
        run(env=env, learning_rate=rate, discount=discount)
        for env, discount in (("Pendulum-v1", 0.9), ("CartPole-v1", 0.99))
        for rate in (1e-3, 1e-4)
    ]
    assert labels(compare_runs(runs)) == [
        (env, f"learning_rate={rate}", 1)
        for env in ("CartPole-v1", "Pendulum-v1")
        for rate in ("0.0001", "0.001")
    ]
    assert labels(compare_runs(runs[1:]))[2:] == [("Pendulum-v1", UNDIVIDED, 1)]


def test_settings_without_influence_are_no_label():
    names = (
        "log_interval",
        "histogram_interval",
        "video_interval",
        "eval_interval",
        "checkpoint_interval",
    )
    runs = [run(seed=0), run(seed=1, info_keys=["speed"], **dict.fromkeys(names, 5000))]
    assert labels(compare_runs(runs)) == [("Pendulum-v1", UNDIVIDED, 2)]


def test_labels_name_the_algorithm_and_what_differs_within_it():
    ppo = [run(epochs=epochs, seed=seed) for epochs in (3, 5) for seed in range(2)]
    sac = [run(preset="sac_pendulum", n_step=n_step) for n_step in (1, 3)]
    assert labels(compare_runs([*sac, *ppo])) == [
        ("Pendulum-v1", "algorithm=ppo, epochs=3", 2),
        ("Pendulum-v1", "algorithm=ppo, epochs=5", 2),
        ("Pendulum-v1", "algorithm=sac, n_step=1", 1),
        ("Pendulum-v1", "algorithm=sac, n_step=3", 1),
    ]
    assert labels(compare_runs([sac[0], *ppo[:2]])) == [
        ("Pendulum-v1", "algorithm=ppo", 2),
        ("Pendulum-v1", "algorithm=sac", 1),
    ]
    assert labels(compare_runs(sac)) == [("Pendulum-v1", f"n_step={n}", 1) for n in (1, 3)]


def test_a_run_of_its_own_that_each_goes_on_with_is_a_seed():
    new = [run(seed=seed) for seed in range(3)]
    own = [run(initial_weights=f"/logs/source-{seed}", seed=seed) for seed in range(3)]
    assert labels(compare_runs([*new, *own])) == [
        ("Pendulum-v1", "initial_weights=false", 3),
        ("Pendulum-v1", "initial_weights=true", 3),
    ]
    shared = [run(initial_weights=source, seed=seed) for source in ("/a", "/b") for seed in (0, 1)]
    assert labels(compare_runs(shared)) == [
        ("Pendulum-v1", "initial_weights=/a", 2),
        ("Pendulum-v1", "initial_weights=/b", 2),
    ]
    of_one_seed = [run(initial_weights=source) for source in ("/a", "/b")]
    assert labels(compare_runs(of_one_seed)) == [
        ("Pendulum-v1", "initial_weights=/a", 1),
        ("Pendulum-v1", "initial_weights=/b", 1),
    ]
    slower = [
        run(initial_weights=one.settings["initial_weights"], seed=one.settings["seed"], epochs=2)
        for one in own
    ]
    assert [count for _, _, count in labels(compare_runs([*own, *slower]))] == [3, 3]


def test_equal_runs_are_one_seed():
    short, long = run(name="short"), run([(1000, 1.0), (2000, 2.0)], name="long")
    other = run(name="other", seed=1)
    for runs in ([short, other, long], [long, short, other]):
        with pytest.warns(
            UserWarning, match="short is left out: long has the same settings and seed"
        ):
            [group] = compare_runs(runs)
        assert group.runs == [long, other]


def test_a_curve_over_seeds():
    runs = [
        run([(1000, 0.0), (2000, 10.0), (3000, 0.0)], seed=0, pace=1e-3),
        run([(1000, 2.0), (3000, 4.0)], seed=1, pace=2e-3),  # Without one evaluation.
        run([(2000, 5.0)], seed=2, pace=1e-3),  # Still in training.
    ]
    [group] = compare_runs(runs)
    np.testing.assert_array_equal(group.positions, [1000, 2000, 3000])
    np.testing.assert_array_equal(group.num_seeds, [2, 3, 2])
    np.testing.assert_array_equal(group.iqm, [1, 6, 2])
    np.testing.assert_array_equal(group.low, [0, 3, 0])
    np.testing.assert_array_equal(group.high, [2, 10, 4])
    np.testing.assert_array_equal(group.is_complete, [False, True, False])
    assert (group.last, group.best, group.rate) == (1, 6, 100)
    steps, minutes = group.progress
    assert steps == 2000 and minutes == pytest.approx((2 + 4 + 2) / 3)
    [group] = compare_runs(runs[:2], "minutes")
    assert group.positions.tolist() == [1, 2, 3, 6] and group.progress == (2250, 3)


def test_scores_that_no_position_has_of_all_seeds_say_of_how_many_they_are():
    early = [run([(1000, 0.0), (2000, 8.0)], seed=seed) for seed in range(2)]
    late = run([(3000, 0.5)], seed=2)
    groups = compare_runs([*early, late])
    row = table_lines(groups, "return")[2]
    assert row.split()[:3] == ["2", "of", "3"]
    assert "8.000 [8.000, 8.000]" in row
    assert table_lines(compare_runs(early), "return")[2].split()[0] == "2"


@pytest.mark.parametrize(
    "mean, std, text",
    [
        (-160.24, 81.06, "-160.2 +- 81.1"),
        (0.774, 0.1249, "0.774 +- 0.125"),
        (9.9994, 0.0, "9.999 +- 0.000"),
        (-500.0, None, "-500.0"),
        (0.96, None, "0.960"),
    ],
)
def test_small_scores_have_three_decimals(mean, std, text):
    assert score_text(mean, std) == text


@pytest.mark.parametrize("num_seeds", [1, 2, 3, 4, 5])
def test_intervals_of_few_seeds_say_how_often_they_miss(num_seeds):
    groups = compare_runs([run([(1, seed)], seed=seed) for seed in range(num_seeds)])
    note = table_lines(groups, "return")[3:]
    if num_seeds in (1, 5):
        assert not note
        return
    (line,) = note
    percent = re.search(rf"of {num_seeds} seeds .* about (\d+) % of", line)[1]
    trials = np.random.default_rng(0).normal(size=(500, num_seeds))
    misses = np.mean([not low <= 0 <= high for low, high in map(bootstrap_interval, trials)])
    assert abs(misses - int(percent) / 100) < 0.06  # Three standard errors.


def test_long_runs_keep_a_thousand_positions():
    points = [(step, step) for step in range(1, 3000)]
    [group] = compare_runs([run(points, seed=0), run(points, seed=1)])
    assert len(group.positions) == 1000
    assert (group.positions[0], group.positions[-1]) == (1, 2999)
    np.testing.assert_array_equal(group.iqm, group.positions)


def naive_value(scores, position, axis):
    """The score of a run at a position, or None before its first point or after its last."""
    points = sorted(zip(scores.positions(axis), scores.values, strict=True))
    for (left, low), (right, high) in zip(points, points[1:] + points[-1:], strict=True):
        if left <= position <= right:
            share = (position - left) / (right - left) if right > left else 0
            return low + share * (high - low)
    return None


CURVES = st.lists(
    st.tuples(st.integers(1, 30).map(lambda k: 1000 * k), st.floats(-1e4, 1e4)),
    min_size=1,
    max_size=6,
    unique_by=lambda point: point[0],
).map(sorted)
RUNS = st.lists(
    st.builds(
        run,
        points=CURVES,
        pace=st.sampled_from([1e-3, 2e-3]),
        seed=st.integers(0, 3),
        learning_rate=st.sampled_from([1e-3, 1e-4]),
        layers=st.sampled_from([(), (8,)]),
        env=st.sampled_from(["Pendulum-v1", "CartPole-v1"]),
    ),
    min_size=1,
    max_size=10,
)


@given(runs=RUNS, axis=st.sampled_from(["steps", "minutes"]))
@settings(deadline=None, max_examples=40)
def test_groups_and_curves_are_those_of_a_plain_loop(runs, axis):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of equal runs.
        groups = compare_runs(runs, axis)
    expected = {}
    for one in runs:
        others = {name: str(value) for name, value in one.settings.items() if name != "seed"}
        group = expected.setdefault(tuple(others.items()), {})
        seed = one.settings["seed"]
        if seed not in group or one.steps[-1] > group[seed].steps[-1]:
            group[seed] = one
    assert len(groups) == len(expected) == len({(group.env, group.label) for group in groups})
    found = {frozenset(map(id, group.runs)) for group in groups}
    assert found == {frozenset(map(id, group.values())) for group in expected.values()}
    for group in groups:
        places = {place for one in group.runs for place in one.positions(axis)}
        assert group.positions.tolist() == sorted(places)
        for index, position in enumerate(group.positions):
            values = [naive_value(one, position, axis) for one in group.runs]
            values = np.array([value for value in values if value is not None])
            assert group.num_seeds[index] == len(values) > 0
            assert group.iqm[index] == pytest.approx(scipy.stats.trim_mean(values, 0.25))
            low, high = bootstrap_interval(values)
            assert group.low[index] == pytest.approx(low, nan_ok=True)
            assert group.high[index] == pytest.approx(high, nan_ok=True)
