import pytest

from results.published import SAME_BUDGET, TASKS
from results.rows import on_policy_of, target_of, verdict

CHEETAH, MILLION = "HalfCheetah-v5", 1_000_000


def row(env, steps, mean, seeds=5, **others):
    return {
        "env": env,
        "steps": steps,
        "mean": mean,
        "returns": [mean] * seeds,
        "command": "",
        **others,
    }


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (row(CHEETAH, 1_001_472, 12_090), "reached"),
        (row(CHEETAH, MILLION, 12_089), "on-policy only"),
        (row(CHEETAH, MILLION, 5819), "on-policy only"),
        (row(CHEETAH, MILLION, 5818), "missed"),
        (row(CHEETAH, MILLION, 20_000, seeds=1), "one seed"),
        (row(CHEETAH, MILLION, 20_000, own_target=None), ""),
        (row(CHEETAH, MILLION, 12_500, own_target=13_000.0), "missed"),
        (row(CHEETAH, 3 * MILLION, 13_000), "on-policy only"),  # Late for 12,090 after a million.
        (row("MountainCarContinuous-v0", 100_000, 90), "late: 100k of 20k"),
        (row("dm_control/hopper/stand", 2 * MILLION, 97), "missed"),  # RPO has 404.
        (row("Pusher-v5", MILLION, 0), ""),
    ],
)
def test_verdicts(row, expected):
    assert verdict(row) == expected


@pytest.mark.parametrize("steps", [100_000, MILLION, 3 * MILLION, 10 * MILLION])
@pytest.mark.parametrize("name", TASKS)
def test_no_target_is_below_a_published_figure_of_the_same_budget(name, steps):
    env = (
        name
        if name[0].islower()
        else f"{name.partition(',')[0]}-v1{name.partition(',')[1]}{name.partition(',')[2]}"
    )
    env = f"dm_control/{env}" if name[0].islower() else env
    one = row(env, steps, 0, own_target=-1e9)
    for figure in TASKS[name]:
        if figure.steps <= SAME_BUDGET * steps:
            assert target_of(one).mean >= figure.mean
            assert figure.off_policy or on_policy_of(one).mean >= figure.mean
    assert target_of(one) in TASKS[name]


def test_games_with_sticky_actions_are_other_tasks():
    sticky = '\'--env-kwargs={"frameskip":1,"repeat_action_probability":0.25}\''
    assert target_of(row("ALE/Pong-v5, preprocess", MILLION, 0, command=sticky)).mean == 16.7
    assert target_of(row("ALE/Pong-v5, preprocess", MILLION, 0)).mean == 20.99
