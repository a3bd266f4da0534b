import functools
import random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from agents.environments.inspection import inspect_env
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
    ):
        self.observation_space = observation_space or spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = action_space
        self._observe, self._draw, self._reward = observe, draw, reward
        self._length, self._keeps_place, self._place = length, keeps_place, 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        self._place = self._place if self._keeps_place else 0.0
        return self._observation(), {}

    def step(self, action):
        self._steps += 1
        self._place += float(np.sum(action)) / 1e3
        done = self._steps == self._length
        return self._observation(), float(self._reward(self._place)), done, False, {}

    def _observation(self):
        noise = self._draw() if self._draw else self.np_random.uniform()
        return self._observe(self._place, noise)


def findings(num_steps=200, **parts):
    return inspect_env(functools.partial(Walk, **parts), num_steps).findings


def finding(**parts):
    (found,) = findings(**parts)
    return found


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1", "Acrobot-v1"])
def test_nothing_is_found_in_environments_of_gymnasium(env):
    inspection = inspect_env(functools.partial(gymnasium.make, env), num_steps=1000)
    if env != "Acrobot-v1":  # Random actions do not swing it up.
        assert inspection.findings == []
    assert inspection.time_limit == gymnasium.spec(env).max_episode_steps
    assert len(inspection.steps.reward) == 1000
    assert inspection.steps.step_seconds > 0 and inspection.steps.reset_seconds > 0


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


@pytest.mark.parametrize(("low", "high"), [(2, np.inf), (-np.inf, -3)])
def test_actions_that_a_new_policy_does_not_reach(low, high):
    found = finding(action_space=spaces.Box(low, high, (2,), np.float32))
    assert not found.is_error and found.problem.endswith(f"outside of [{low:g}, {high:g}]")
    assert "two finite bounds" in found.advice


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.inf, (1,), np.float32),
        spaces.Box(-2, 8, (1,)),
        spaces.Box(-1000, 1000, (1,)),
        spaces.Discrete(3),
    ],
)
def test_other_actions_are_fine(space):
    assert findings(action_space=space) == []


def test_what_float32_loses_of_observations():
    def clock(dtype):
        space = spaces.Box(-np.inf, np.inf, (2,), dtype)
        return findings(
            observation_space=space,
            observe=lambda place, noise: np.array([noise, 1.7e6 + noise], dtype),
        )

    (found,) = clock(np.float32)
    assert found.problem.startswith("observations: number 1 is around 1.7e+06 and changes by ")
    assert not found.is_error and "differences" in found.advice
    assert clock(np.float64) == []  # Normalized before it becomes float32.


def test_observations_beyond_float32():
    box = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    found = finding(observation_space=box, observe=lambda place, noise: np.array([1e200 * noise]))
    assert found.is_error and "too large for float32" in found.problem


def test_random_numbers_that_no_seed_determines():
    found = finding(draw=random.random)
    assert found.problem == "two environments that are reset with the same seed differ at once"
    assert "np_random" in found.advice


def test_state_that_a_reset_keeps():
    found = finding(keeps_place=True)
    assert "was used before" in found.problem and "RebuildOnSeed" in found.advice
    make = functools.partial(Walk, keeps_place=True)
    assert inspect_env(lambda: RebuildOnSeed(make), 100).findings == []


def test_episodes_that_do_not_end():
    found = finding(length=None)
    assert "no episode ended in 200 random steps" in found.problem
    assert "--max-episode-steps" in found.advice
    spec = EnvSpec("Walk-v0", functools.partial(Walk, length=None), max_episode_steps=10)
    limited = inspect_env(functools.partial(gymnasium.make, spec, disable_env_checker=True), 100)
    assert limited.findings == [] and limited.time_limit == 10


def test_observations_out_of_bounds():
    found = finding(observation_space=spaces.Box(0, 0.5, (2,), np.float32))
    assert "in an observation of Box(0.0, 0.5" in found.problem and not found.is_error
    assert "widen" in found.advice  # Gymnasium's checker finds the same.


def test_rewards_that_nothing_changes():
    assert "the reward was 0 in all 200 random steps" in finding(reward=lambda place: 0.0).problem


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


def test_masked_actions_are_not_taken():
    make = functools.partial(BanditEnv, 4, masked=True)
    (found,) = inspect_env(make, 100).findings
    assert not found.is_error and "hold an action_mask, which training ignores" in found.problem
    assert inspect_env(make, 100, action_mask=True).findings == []


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
