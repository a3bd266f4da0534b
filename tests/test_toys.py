"""The toy environments of the other tests."""

import functools
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from agents.workers.external_process import ExternalProcess
from tests.faulty_toys import CommandedEnv, CountingVectorEnv, FaultyEnv
from tests.toys import (
    COUNTS,
    MIXED_ACTIONS,
    MIXED_OBSERVATIONS,
    BanditEnv,
    CountingEnv,
    CueEnv,
    RandomEnv,
    ScriptedEnv,
    read_counts,
)

FRAMES = [np.full(2, count, np.float32) for count in range(3)]
CONSTRUCTORS = {
    "counting": functools.partial(CountingEnv, [(3, "terminated")]),
    "random": RandomEnv,
    "random, mixed": functools.partial(RandomEnv, MIXED_OBSERVATIONS, MIXED_ACTIONS),
    "scripted": functools.partial(ScriptedEnv, FRAMES, spaces.Box(0, 9, (2,), np.float32)),
    "bandit": BanditEnv,
    "bandit, masked": functools.partial(BanditEnv, 4, masked=True),
    "cue": CueEnv,
    "commanded": CommandedEnv,
}


@pytest.fixture(params=CONSTRUCTORS.values(), ids=CONSTRUCTORS)
def constructor(request):
    return request.param


# Without those that break rules on purpose: they reuse a buffer, count over resets, mask actions.
@pytest.mark.filterwarnings("ignore::UserWarning")  # About unusual spaces.
@pytest.mark.parametrize("name", ["counting", "random", "random, mixed", "bandit", "cue"])
def test_environments_follow_gymnasiums_interface(name):
    durations = {"durations": (3, 3)} if name.startswith("random") else {}
    check_env(CONSTRUCTORS[name](**durations), skip_render_check=True)


def test_observations_are_in_their_space(constructor):
    env = constructor()
    observ, _ = env.reset(seed=0)
    assert env.observation_space.contains(observ)
    action = env.action_space.sample() if isinstance(env, RandomEnv) else 0
    assert env.observation_space.contains(env.step(action)[0])


def test_constructors_and_environments_can_be_pickled(constructor):
    env = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(constructor))()))
    env.reset(seed=0)


def test_worker_processes_import_them_without_tensorflow():
    code = "import sys, tests.toys, tests.faulty_toys; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    process = ExternalProcess(functools.partial(CountingEnv, [(2, "truncated")], start=5))
    try:
        assert read_counts(process.reset()[0]) == 5
        assert process.step(0)[1:4] == (1.0, False, False)
        assert process.step(0)[1:4] == (1.0, False, True)
    finally:
        process.close()


def test_counts_follow_the_plan():
    env = CountingEnv([(1, "truncated"), (2, "both")], start=10, stride=100, stop_action=1)
    assert read_counts(env.reset(seed=3)[0]) == 10
    assert env.step(0)[2:4] == (False, True)
    assert read_counts(env.reset()[0]) == 110
    assert env.step(0)[2:4] == (False, False)
    observ, _, *flags, _ = env.step(0)
    assert (read_counts(observ), flags) == (112, [True, True])
    with pytest.raises(AssertionError, match="after the end"):
        env.step(0)
    env.reset()
    assert env.step(1)[2:4] == (False, True)
    assert env.resets == [(3, None), (None, None), (None, None)] and env.actions == [0, 0, 0, 0, 1]
    assert read_counts(CountingEnv(start_at_seed=True).reset(seed=7)[0]) == 7


def test_counts_that_differ_are_noticed():
    observ = CountingEnv(start=3).reset()[0]
    observ["image"][1, 2] = 4
    with pytest.raises(AssertionError):
        read_counts(observ)
    assert COUNTS.contains(CountingEnv(start=300).reset()[0])


def test_random_numbers_derive_from_the_seed():
    def play(seed):
        env = RandomEnv(mean=[5, -1], std=[3, 0.5])
        env.reset(seed=seed)
        for _ in range(200):
            if env.step(np.full(1, 0.5, np.float32))[2:4] != (False, False):
                env.reset()
        return env

    one, same, other = play(1), play(1), play(2)
    np.testing.assert_equal(one.history, same.history)
    assert not np.array_equal(one.observs, other.observs)
    np.testing.assert_allclose(np.mean(one.observs, axis=0), [5, -1], atol=0.6)
    np.testing.assert_allclose(np.std(one.observs, axis=0), [3, 0.5], rtol=0.15)
    ends = np.mean([(step.terminated, step.truncated) for step in one.history], axis=0)
    np.testing.assert_allclose(ends, [0.1, 0.2], atol=0.07)


def test_random_durations():
    env = RandomEnv(durations=(2, 4), ending="truncated")
    env.reset(seed=0)
    lengths, steps = [], 0
    for _ in range(60):
        steps += 1
        if env.step(np.zeros(1, np.float32))[3]:
            lengths.append(steps)
            env.reset()
            steps = 0
    assert set(lengths) == {2, 3, 4}


@pytest.mark.parametrize(
    "fault", [OSError("the wheel came off"), {"observ": np.nan}, {"reward": np.inf}], ids=str
)
def test_faults_happen_in_the_chosen_call(fault):
    env = FaultyEnv(RandomEnv(termination=0, truncation=0), fault, countdown=3)
    env.reset(seed=0)
    action = np.zeros(1, np.float32)
    for step in range(1, 6):
        if step == 3 and isinstance(fault, OSError):
            with pytest.raises(OSError, match="wheel"):
                env.step(action)
            continue
        observ, reward, *_ = env.step(action)
        assert np.isnan(observ[-1]) == (step == 3 and "observ" in fault)
        assert np.isinf(reward) == (step == 3 and "reward" in fault)


def test_a_reset_may_fail():
    env = FaultyEnv(CueEnv(), KeyError("lost"), countdown=2, method="reset")
    env.reset()
    with pytest.raises(KeyError, match="lost"):
        env.reset()
    env.reset()


@pytest.mark.parametrize(
    ("masked_reset", "counts"), [("rows", [0, 2]), ("all", [0, 0]), ("part", [0])]
)
def test_vector_environments_reset_by_mask(masked_reset, counts):
    envs = CountingVectorEnv([5, 5], AutoresetMode.NEXT_STEP, masked_reset=masked_reset)
    envs.reset()
    for _ in range(2):
        observ, *_ = envs.step(np.zeros(2, int))
    np.testing.assert_array_equal(observ[:, 0], [2, 2])
    observ, _ = envs.reset(options={"reset_mask": np.array([True, False])})
    np.testing.assert_array_equal(observ[:, 0], counts)


def test_vector_environments_reset_in_the_step_that_ends_an_episode():
    envs = CountingVectorEnv([2, 3])
    assert isinstance(envs, gymnasium.vector.VectorEnv)
    envs.reset(seed=0)
    envs.step(np.zeros(2, int))
    observ, reward, terminated, truncated, infos = envs.step(np.zeros(2, int))
    np.testing.assert_array_equal(observ[:, 0], [0, 2])
    np.testing.assert_array_equal(reward, [2, 2])
    np.testing.assert_array_equal([terminated, truncated], [[True, False], [False, False]])
    np.testing.assert_array_equal(infos["final_obs"][0, 0], 2)
    assert "final_obs" not in CountingVectorEnv([1], without_final_obs=True).step(np.zeros(1))[-1]
