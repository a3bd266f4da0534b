import json
import os
import signal
import subprocess
import sys
import textwrap

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.errors import UsageError
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from tests.scripts.runs import (
    assert_equal_runs,
    children,
    depends_on_clock,
    events,
    finish,
    hashes,
    rewound,
    rows,
    small,
)
from tests.toys import BanditEnv, CountingEnv


def kill_after_evaluation(run, config, which):
    """Trains in another process, which is killed right after evaluation number `which`."""
    code = """
        import os, signal, sys
        from agents.settings.config_file import load_config
        from agents.runs.run_directory import RunDirectory
        from agents.scripts.train import train

        training = train(load_config(sys.argv[1]), RunDirectory(sys.argv[2]))
        for evaluation, _ in enumerate(training, 1):
            if evaluation == int(sys.argv[3]):
                os.kill(os.getpid(), signal.SIGKILL)
        """
    run.prepare(config)
    arguments = [textwrap.dedent(code), run.config_file, run.path, str(which)]
    process = subprocess.run([sys.executable, "-c", *arguments], capture_output=True, text=True)
    assert process.returncode == -signal.SIGKILL, process.stderr


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    """A run that never stopped, and the scores it yielded."""
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "20260131T120000-pendulum")
    return run, finish(small(), run)


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "20260131T120000-cartpole")
    return run, finish(small("cartpole"), run)


def test_a_run_directory_holds_the_documented_files(pendulum):
    run, scores = pendulum
    [settings] = run.path.glob("events.out.tfevents.*")  # For TensorBoard's HParams page.
    assert {path.name for path in run.path.iterdir()} == {
        "config.yaml", "spaces.json", "metrics.jsonl", "checkpoints", "train", "eval", "lock", settings.name
    }  # fmt: skip
    assert run.load_config() == small()
    logged = [row.get("eval/return_mean") for row in read_metrics(run.metrics_file)]
    assert scores == [score for score in logged if score is not None] and len(scores) == 2
    best = 1000 * (1 + int(np.argmax(scores)))
    assert set(hashes(run)) == {
        *(f"step-{step}.npz" for step in (600, 1200, 1800, 2000)),
        f"best/step-{best}.npz",
    }


def test_metrics_have_the_documented_scalars(pendulum, cartpole):
    losses = {
        "policy", "value", "entropy", "approx_kl", "clip_fraction", "explained_variance", "gradient_norm", "epochs"
    }  # fmt: skip
    parts = ("environments", "acting", "learning", "logging", "evaluation", "saving")
    shares = {f"time/{name}" for name in parts}
    always = {
        "step", "wall_time", "perf/steps_per_second", "schedule/learning_rate", *(f"losses/{name}" for name in losses)
    }  # fmt: skip
    episode = {"episode/return", "episode/length"}
    evaluation = {
        "step", "wall_time", "eval/return_mean", "eval/return_std", "eval/length_mean", "eval/episodes"
    }  # fmt: skip
    logged = read_metrics(pendulum[0].metrics_file)
    # Logged every 400 steps, and at checkpoints. Episodes of 200 steps are cut by checkpoints, but
    # not by evaluations.
    expected = [
        (400, always), (600, always), (800, always), (1000, evaluation), (1200, always), (1600, always),
        (1800, always), (2000, always), (2000, evaluation),
    ]  # fmt: skip
    assert [(row["step"], set(row) - shares) for row in logged] == expected
    for row in (row for row in logged if always < set(row)):
        assert set(row) & shares >= {"time/learning", "time/acting"}
        assert 0.5 < sum(row[tag] for tag in shares & set(row)) <= 1
    assert all(np.isfinite(list(row.values())).all() for row in logged)
    logged = read_metrics(cartpole[0].metrics_file)
    assert all(set(row) - shares in (always | episode, evaluation) for row in logged)


def test_tensorboard_shows_the_documented_scalars_and_histograms(pendulum, cartpole):
    for run, extra in ((pendulum[0], "std"), (cartpole[0], "probability")):
        logged = read_metrics(run.metrics_file)
        scalars = {tag for row in logged for tag in row} - {"step", "wall_time"}
        train_events, eval_events = events(run.train_events), events(run.eval_events)
        # In the charts of the training episodes.
        assert set(eval_events) == {"episode/return", "episode/length", "eval/return_std"}
        assert eval_events["episode/return"] == [
            row["step"] for row in logged if "eval/return_mean" in row
        ]
        assert train_events["losses/value"] == [
            row["step"] for row in logged if "losses/value" in row
        ]
        histograms = set(train_events) - scalars
        rollout = {
            "action", "log_prob", "mode", extra, "observ", "normalized_observ", "reward", "value", "advantage", "return"
        }  # fmt: skip
        assert {tag for tag in histograms if tag.startswith("rollout/")} == {
            f"rollout/{name}" for name in rollout
        }
        for kind in ("weights", "weight_gradients"):
            groups = {tag.split("/")[1] for tag in histograms if tag.startswith(f"{kind}/")}
            assert groups == {"policy", "value"}
        assert train_events["rollout/advantage"] == (
            [200, 800, 1600, 2000] if run is pendulum[0] else [200, 800, 1200]
        )


IN_TURNS = {"wait_for": 0.25, "num_processes": 4}


@pytest.mark.parametrize("in_turns", [{}, pytest.param(IN_TURNS, marks=pytest.mark.slow)])
def test_a_killed_run_resumes_as_if_it_had_never_stopped_with_another_backend(
    pendulum, tmp_path, in_turns
):
    killed = RunDirectory(tmp_path / "20260131T120000-pendulum")
    kill_after_evaluation(killed, small(env_backend="process", **in_turns), which=1)
    assert set(hashes(killed)) == {"step-600.npz", "best/step-1000.npz"}
    # It equals the run that never stopped, whose environments were in the training process.
    finish(killed.load_config(), killed)
    assert_equal_runs(killed, pendulum[0])


@pytest.fixture(scope="module")
def tensor_pendulum(tmp_path_factory):
    """A run that never stopped, in TensorFlow."""
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "20260131T120000-pendulum")
    finish(small(env_backend="tf"), run)
    return run


@pytest.fixture(scope="module")
def envpool_cartpole(tmp_path_factory):
    """A run that never stopped, in EnvPool's threads."""
    pytest.importorskip("envpool")
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "20260131T120000-cartpole")
    finish(small("cartpole", env_backend="envpool", max_episode_steps=100), run)
    return run


@pytest.mark.parametrize("fixture", ["tensor_pendulum", "envpool_cartpole"])
def test_runs_with_other_backends_resume_as_if_they_had_never_stopped(request, tmp_path, fixture):
    never_stopped = request.getfixturevalue(fixture)
    stopped = rewound(never_stopped, tmp_path / "stopped", 600)
    assert set(hashes(stopped)) - {"best/step-600.npz"} == {"step-600.npz"}
    finish(stopped.load_config(), stopped)
    assert_equal_runs(stopped, never_stopped)


def test_a_score_comes_with_the_checkpoint_of_its_step(tmp_path):
    run = RunDirectory(tmp_path)
    for score in train(small("cartpole", eval_interval=400, checkpoint_interval=400), run):
        assert run.checkpoint("last").name == f"step-{score.step}"
        if score.step == 800:
            break


def test_an_abandoned_run_resumes_as_if_it_had_never_stopped(cartpole, tmp_path):
    left, scores = RunDirectory(tmp_path / "left"), []
    for score in train(small("cartpole"), left):
        scores.append(score)
        if score.step == 800:
            break
    del score
    assert scores == cartpole[1][:2]
    assert left.checkpoint("last").name == "step-800"  # The last iteration.
    run = rewound(left, tmp_path / "run", 600)  # The scheduled checkpoint.
    damage(run)
    assert list(train(small("cartpole"), tmp_path / "latest")) == cartpole[1][1:]
    assert_equal_runs(run, cartpole[0])
    before = hashes(run), rows(run)
    assert finish(small("cartpole"), run) == []  # It is complete; nothing changes.
    assert (hashes(run), rows(run)) == before


def damage(run):
    """Leaves incomplete files, as a process that is killed while writing."""
    with run.metrics_file.open("a") as file:
        file.write('{"step": 10')
    for folder in (run.train_events, run.eval_events):
        newest = max(folder.iterdir())
        newest.write_bytes(newest.read_bytes() + b"\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7f")
        (folder / "unfinished").write_bytes(b"\x18\x00\x00")
    (run.checkpoints / "step-800.npz.unfinished").write_bytes(b"\x00")
    (run.path / "config.yaml.unfinished").write_text("env: Pen")


def test_without_a_run_directory_nothing_is_kept_and_closing_the_generator_ends_workers(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    before = children()
    training = train(small(env_backend="process", eval_interval=200))
    next(training)
    assert len(children()) > len(before)
    training.close()
    assert children() == before
    assert list(tmp_path.rglob("*")) == [tmp_path / "temporary"]


def test_workers_end_when_training_fails(tmp_path):
    before = children()
    run = RunDirectory(tmp_path)
    run.prepare(small())
    run.checkpoints.mkdir()
    (run.checkpoints / "step-600.npz").write_bytes(b"damaged")
    with pytest.warns(UserWarning), pytest.raises(UsageError, match="intact"):
        next(train(small(env_backend="process"), run))
    assert children() == before


def test_a_run_that_ends_with_a_usage_error_leaves_no_folder(tmp_path):
    with pytest.raises(UsageError, match="Nowhere"):
        next(train(small(env="Nowhere-v0"), RunDirectory(tmp_path / "logs" / "run")))
    assert not list((tmp_path / "logs").iterdir())


def test_environments_with_dictionaries_of_doubles_can_be_learned():
    space = spaces.Dict(
        context=spaces.Box(-9, 9, (1,), np.float64),
        others=spaces.Tuple([spaces.Box(-9, 9, (1,)), spaces.Discrete(4)]),
    )

    def observe(context):
        others = (np.array([0.5], np.float32), 3)
        return {"context": np.array([2.0 * context]), "others": others}

    def make_env():
        bandit = BanditEnv(start=-1)  # Action 0 or 1 is the best one, depending on the context.
        return gymnasium.wrappers.TransformObservation(bandit, observe, space)

    gymnasium.register("Bandit-v0", make_env)
    settings = {"env": "Bandit-v0", "steps": 4000, "learning_rate": 0.01, "eval_interval": 400}
    try:
        scores = finish(small("default", **settings, eval_episodes=20), None)
    finally:
        del gymnasium.registry["Bandit-v0"]
    assert len(scores) == 10
    assert scores[-1] > 0.9  # Actions that ignore the context get 0.5 at most.


def test_settings_that_change_what_is_learned_are_refused(cartpole):
    with pytest.raises(UsageError, match=r"layers: the run has \(8,\), got \(16,\)"):
        finish(small("cartpole", layers=(16,)), cartpole[0])
    assert cartpole[0].load_config() == small("cartpole")


def race(steps):
    lap = {"lap": 10 * steps} if steps % 2 == 0 else {}
    return {"speed": np.float32(steps or -100), "name": "Ann", **lap}


def test_means_of_numbers_in_infos_are_logged(tmp_path):
    def make_env():
        space = spaces.Box(-1, 1e6, (1,), np.float32)
        return CountingEnv([(4, "terminated")], space, info=race)

    run = RunDirectory(tmp_path)
    config = small(
        "default", env=make_env, num_envs=2, rollout_length=30, minibatch_size=60, epochs=1, steps=240,
        log_interval=120, checkpoint_interval=240, eval_interval=240, eval_episodes=1,
        info_keys=["speed", "lap", "sped"],
    )  # fmt: skip
    with pytest.warns(
        UserWarning, match="no info had a number 'sped'.*names in infos: .*lap, name, .*speed"
    ) as issued:
        finish(config, run)
    assert len([warning for warning in issued if "sped" in str(warning.message)]) == 1
    logged = [row for row in read_metrics(run.metrics_file) if "losses/value" in row]
    assert [row["step"] for row in logged] == [120, 240]
    for row in logged:  # 60 steps of each environment between two log points.
        assert row["info/speed"] == pytest.approx(np.mean([1, 2, 3, 4]))
        assert row["info/lap"] == pytest.approx(np.mean([20, 40]))
    (evaluation,) = [row for row in read_metrics(run.metrics_file) if "eval/return_mean" in row]
    infos = {tag: value for tag, value in evaluation.items() if tag.startswith("eval/info/")}
    assert infos == {"eval/info/speed": 4, "eval/info/lap": 40}  # Of the last, fourth step.


FIRST_METRICS = """
import json, os, sys
from agents.scripts.train import train
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory

assert "XLA_FLAGS" not in os.environ
for path in sys.argv[1:]:
    run = RunDirectory(path)
    next(train(run.load_config(), run))
    print(json.dumps(read_metrics(run.metrics_file)[0]))
imported = {".".join(name.split(".")[:2]) for name in sys.modules}
assert not imported & {"agents.distributed", "ray"}  # Which only several learners need.
"""


def test_xla_optimizations_change_metrics_by_rounding_only(pendulum, tensor_pendulum, tmp_path):
    """All other tests train without these optimizations, see conftest.py."""
    runs = [RunDirectory(tmp_path / name) for name in ("process", "tf")]
    for run in runs:
        run.prepare(small(env_backend=run.path.name, eval_interval=400))
    output = subprocess.check_output(
        [sys.executable, "-W", "ignore", "-c", FIRST_METRICS, *(run.path for run in runs)],
        env={name: value for name, value in os.environ.items() if name != "XLA_FLAGS"},
        text=True,
    )
    for line, other in zip(output.splitlines(), (pendulum[0], tensor_pendulum), strict=True):
        optimized, plain = json.loads(line), read_metrics(other.metrics_file)[0]
        assert optimized["step"] == plain["step"] == 400 and "losses/policy" in plain
        assert optimized.keys() == plain.keys()
        for tag in (tag for tag in plain if not depends_on_clock(tag)):
            assert np.isfinite(optimized[tag])
            np.testing.assert_allclose(optimized[tag], plain[tag], rtol=1e-3, atol=1e-5)
