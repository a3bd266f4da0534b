import functools
import random
import re
import time

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from agents.environments.inspection import describe, inspect_env
from agents.environments.random_steps import take_random_steps
from agents.environments.wrappers import RebuildOnSeed
from tests.toys import BanditEnv

FORCE = spaces.Box(-1, 1, (2,), np.float32)


class Walk(gymnasium.Env):
    """Observes the sum of its actions and a number from 0 to 1; its parts can be replaced."""

    def __init__(
        self,
        observation_space=None,
        action_space=FORCE,
        observe=lambda place, noise: np.array([place, noise], np.float32),
        draw=None,
        reward=lambda place: place,
        length=20,
        keeps_place=False,
        terminates=False,
        goal=None,
    ):
        self.observation_space = observation_space or spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = action_space
        self._observe, self._draw, self._reward = observe, draw, reward
        self._length, self._keeps_place, self._place = length, keeps_place, 0.0
        self._terminates, self._goal = terminates, goal

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        self._place = self._place if self._keeps_place else 0.0
        return self._observation(), {}

    def step(self, action):
        self._steps += 1
        self._place += float(np.sum(action)) / 1e3
        done = self._steps == self._length
        flags = done and self._terminates, done and not self._terminates
        if self._goal is not None:
            flags = self._place >= self._goal, False
        return self._observation(), float(self._reward(self._place)), *flags, {}

    def _observation(self):
        noise = self._draw() if self._draw else self.np_random.uniform()
        return self._observe(self._place, noise)


def findings(num_steps=200, **parts):
    return inspect_env(functools.partial(Walk, **parts), num_steps).findings


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1", "Acrobot-v1"])
def test_nothing_is_found_in_environments_of_gymnasium(env):
    inspection = inspect_env(functools.partial(gymnasium.make, env), num_steps=1000)
    if env != "Acrobot-v1":  # Random actions do not swing it up.
        assert inspection.findings == []
    assert inspection.time_limit == gymnasium.spec(env).max_episode_steps
    assert len(inspection.steps.reward) == 1000
    assert inspection.steps.step_seconds > 0 and inspection.steps.reset_seconds > 0


def test_the_speed_counts_slow_resets():
    inspection = inspect_env(Walk, num_steps=50)  # Episodes of 20 steps.
    for reset_seconds, text in (
        (1e-4, "takes 0.1 ms"),
        (0.1, "takes 100 ms: 167 steps/s with resets"),
    ):
        steps = inspection.steps._replace(step_seconds=1e-3, reset_seconds=reset_seconds)
        lines = describe("Walk", inspection._replace(steps=steps))
        [line] = [line for line in lines if "speed" in line]
        assert line == f"  speed         1,000 steps/s, a reset {text}"


def test_rare_slow_resets_count():
    class SometimesSlow(Walk):
        resets = 0

        def reset(self, **kwargs):
            SometimesSlow.resets += 1
            if SometimesSlow.resets % 5 == 0:
                time.sleep(0.2)
            return super().reset(**kwargs)

    inspection = inspect_env(SometimesSlow, num_steps=200)  # Ten episodes of 20 steps.
    assert inspection.steps.longest_seconds >= 0.2 and inspection.steps.reset_seconds >= 0.04
    lines = describe("SometimesSlow", inspection)
    assert "steps/s with resets" in lines[-2]
    assert (
        lines[-1] == f"  longest       {inspection.steps.longest_seconds:.3g} s for a step or reset"
    )


def test_nothing_is_found_in_the_toy():
    inspection = inspect_env(Walk, num_steps=50)
    assert inspection.findings == [] and inspection.time_limit is None
    assert inspection.steps.lengths == [20, 20]
    # Two whole episodes, a part of a third one, and three resets.
    assert [scale.count for scale in inspection.steps.scales] == [53]
    first = inspection.steps.reward[:20].sum()
    np.testing.assert_allclose(inspection.steps.returns[0], first)


def test_scales_are_those_of_all_numbers():
    observs = []

    def observe(place, noise):
        observs.append([1.7e9 + 3 * noise, -noise])
        return np.array(observs[-1])

    space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    steps = take_random_steps(Walk(space, observe=observe), 100, seed=3)
    [scale] = steps.scales
    np.testing.assert_array_equal(scale.largest, np.abs(observs).max(axis=0))
    np.testing.assert_allclose(scale.deviation(), np.std(observs, axis=0), rtol=1e-3)


def box(low, high, dtype=np.float32, size=2):
    return spaces.Box(low, high, (size,), dtype)


def clock(dtype):
    """The parts of a walk that observes numbers of which float32 keeps little."""
    space = box(-np.inf, np.inf, dtype)
    return {
        "observation_space": space,
        "observe": lambda place, noise: np.array([noise, 1.7e6 + noise], dtype),
    }


def grid(highest, dtype=np.int64, shape=(2, 3)):
    """The parts of a walk that observes an array of integers."""
    return {
        "observation_space": spaces.Box(0, highest, shape, dtype),
        "observe": lambda place, noise: np.full(shape, int(abs(noise)) % 2, dtype),
    }


FINDINGS = [  # Whether it is an error, its problem, its advice.
    (
        {"action_space": box(2, np.inf)},
        (False, r"outside of \[2, inf\]$", "two finite bounds"),
    ),
    (
        {"action_space": box(-np.inf, -3)},
        (False, r"outside of \[-inf, -3\]$", "two finite bounds"),
    ),
    ({"action_space": box(-np.inf, np.inf)}, None),
    ({"action_space": box(-2, 8)}, None),
    ({"action_space": box(-1000, 1000)}, None),
    ({"action_space": spaces.Discrete(3)}, None),
    (
        clock(np.float32),
        (False, r"^observations: number 1 is around 1.7e\+06 and changes by ", "differences"),
    ),
    (clock(np.float64), None),  # Normalized before it becomes float32.
    (
        {
            "observation_space": box(-np.inf, np.inf, np.float64, 1),
            "observe": lambda place, noise: np.array([1e200 * noise]),
        },
        (True, "too large for float32", "scale or clip"),
    ),
    (
        {"draw": random.random},
        (False, "^two environments .* with the same seed differ at once$", "np_random"),
    ),
    ({"keeps_place": True}, (False, "a used environment", "RebuildOnSeed")),
    ({"length": None}, (False, "no time limit; no episode ended in 200", "--max-episode-steps")),
    ({"goal": 1e-3}, (False, "no time limit; .* episodes ended in 200", "--max-episode-steps")),
    ({"terminates": True}, (False, "all 10 episodes terminated after 20 steps", "truncated")),
    ({"terminates": True, "length": 9}, None),
    ({"terminates": True, "length": 150}, None),
    # Gymnasium's checker finds the same.
    ({"observation_space": box(0, 0.5)}, (False, r"in an observation of Box\(0.0, 0.5", "widen")),
    ({"reward": lambda place: 0.0}, (False, "the reward was 0 in all 200 random steps", "")),
    (grid(3), (False, "^observations: .* the integers from 0 to 3 as amounts$", "MultiDiscrete")),
    (grid(9, np.uint8), (False, "from 0 to 9 as amounts", "MultiDiscrete")),
    (grid(255, np.uint8), None),  # Pixels.
    (grid(1, np.uint8), None),  # Zeros and ones need no other space.
    (grid(3, shape=(6,)), None),  # Such as the levels of stocks.
    (grid(3, np.float32), None),
]


@pytest.mark.parametrize(("parts", "expected"), FINDINGS)
def test_findings(parts, expected):
    found = findings(**parts)
    if expected is None:
        assert found == []
        return
    [found] = found
    is_error, problem, advice = expected
    assert found.is_error == is_error
    assert re.search(problem, found.problem) and advice in found.advice


def test_what_the_advice_names_leaves_nothing_to_find():
    make = functools.partial(Walk, keeps_place=True)
    assert inspect_env(lambda: RebuildOnSeed(make), 100).findings == []
    spec = EnvSpec("Walk-v0", functools.partial(Walk, length=None), max_episode_steps=10)
    limited = inspect_env(functools.partial(gymnasium.make, spec, disable_env_checker=True), 100)
    assert limited.findings == [] and limited.time_limit == 10


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"observe": lambda place, noise: np.full(2, np.nan, np.float32)}, "in an observation of"),
        ({"observe": lambda place, noise: np.zeros(3, np.float32)}, "expected"),
        ({"reward": lambda place: np.nan}, "returned the reward nan"),
    ],
)
def test_data_that_training_refuses(parts, reason):
    errors = [found for found in findings(**parts) if found.is_error]
    assert any(reason in found.problem for found in errors)
    assert inspect_env(functools.partial(Walk, **parts), 100).steps is None


def test_gymnasiums_checker_is_asked():
    class NoSeed(Walk):
        def reset(self, *, options=None, **kwargs):
            super().reset()
            return self._observation(), {}

    class Reused(Walk):
        _observed = np.zeros(2, np.float32)

        def _observation(self):
            self._observed[:] = super()._observation()
            return self._observed

    for env in (NoSeed, Reused):
        found = inspect_env(env, 100).findings[0]
        # Training copies observations, and does without seeds.
        assert not found.is_error and found.problem.startswith("Gymnasium's checker: ")


class LooseBandit(BanditEnv):
    """Takes invalid actions for the best one."""

    def step(self, action):
        return super().step(min(action, self._start + 1 + self._context))


@pytest.mark.parametrize(
    ("make_env", "problem"),
    [
        (BanditEnv, "a random action raised AssertionError.*; training ignores the action_mask"),
        (LooseBandit, "the observations hold an action_mask, but training ignores it"),
    ],
)
def test_masked_actions_are_taken_without_the_setting_as_in_training(make_env, problem):
    make = functools.partial(make_env, 4, masked=True)
    (found,) = inspect_env(make, 100).findings
    assert re.fullmatch(problem, found.problem) and "--action-mask=true" in found.advice
    assert found.is_error == (make_env is BanditEnv)
    assert inspect_env(make, 100, action_mask=True).findings == []


class Masked(gymnasium.Env):
    """Has a mask at every second step, and allows all actions at the others."""

    def __init__(self, action_space, mask, is_observed):
        self.action_space, self._is_observed = action_space, is_observed
        self._masks = [np.ones(len(mask), np.int8), np.array(mask, np.int8)]
        places = {"x": spaces.Box(-1, 1, (1,))}
        masks = {"action_mask": spaces.MultiBinary(len(mask))}
        self.observation_space = spaces.Dict(places | masks if is_observed else places)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._results()

    def step(self, action):
        self._steps += 1
        observ, info = self._results()
        return observ, float(observ["x"][0]), False, self._steps == 10, info

    def _results(self):
        place = {"x": self.np_random.uniform(-1, 1, 1).astype(np.float32)}
        mask = {"action_mask": self._masks[self._steps % 2]}
        return (place | mask, {}) if self._is_observed else (place, mask)


@pytest.mark.parametrize("is_observed", [False, True])
@pytest.mark.parametrize(
    ("action_space", "mask", "is_blocked"),
    [
        (spaces.Discrete(3), [0, 0, 0], True),
        (spaces.Discrete(3), [0, 1, 0], False),
        (spaces.MultiDiscrete([2, 3]), [1, 1, 0, 0, 0], True),
        (spaces.MultiDiscrete([2, 3]), [0, 1, 0, 1, 0], False),
    ],
)
def test_masks_that_allow_no_action(action_space, mask, is_blocked, is_observed):
    make = functools.partial(Masked, action_space, mask, is_observed)
    found = inspect_env(make, 100, action_mask=True).findings
    assert len(found) == is_blocked
    for one in found:
        assert "was 0 for all actions at 50 of 100 random steps" in one.problem


def test_environments_are_closed():
    made = []

    class Counted(Walk):
        def __init__(self):
            super().__init__()
            made.append(self)

        def close(self):
            made.remove(self)

    inspect_env(Counted, 10)
    assert not made
