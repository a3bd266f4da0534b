import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.toy_text.taxi import TaxiEnv
from gymnasium.utils.env_checker import check_env

from agents.environments.wrappers.action_mask import (
    ActionMask,
    check_action_mask,
    mask_size,
    with_action_mask,
)
from agents.errors import UnsupportedSpaceError


class Game(gymnasium.Env):
    """Returns the masks in order, the first at the reset; the last ends the episode."""

    def __init__(self, masks, action_space=None, observation_space=None):
        self.masks = masks
        self.action_space = action_space or spaces.Discrete(3)
        self.observation_space = observation_space or spaces.Box(0, 99, (), np.int64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array(0), self.info()

    def step(self, action):
        self.time += 1
        return np.array(self.time), 0.0, self.time == len(self.masks) - 1, False, self.info()

    def info(self):
        mask = self.masks[self.time]
        return {} if mask is None else {"action_mask": mask}


@pytest.mark.filterwarnings(
    "ignore:.*The environment .* is different from the unwrapped version:UserWarning"
)
def test_masks_are_observed():
    env = ActionMask(
        Game([[1, 0, 1], np.array([True, False, False]), np.array([0, 1, 1], np.uint8)])
    )
    check_env(env, skip_render_check=True)
    first, info = env.reset()
    assert info == {"action_mask": [1, 0, 1]}
    seen = [first, env.step(0)[0], env.step(0)[0]]
    assert [observ["action_mask"].tolist() for observ in seen] == [[1, 0, 1], [1, 0, 0], [0, 1, 1]]
    assert [int(observ["observ"]) for observ in seen] == [0, 1, 2]
    assert all(observ in env.observation_space for observ in seen)


@pytest.mark.parametrize(
    "mask", [(np.array([1, 0]), np.array([0, 1, 1])), np.array([1, 0, 0, 1, 1])]
)
def test_masks_of_several_choices_are_concatenated(mask):
    env = ActionMask(Game([mask], spaces.MultiDiscrete([2, 3])))
    assert env.observation_space["action_mask"] == spaces.MultiBinary(5)
    assert env.reset()[0]["action_mask"].tolist() == [1, 0, 0, 1, 1]


def test_the_last_step_needs_no_mask():
    env = ActionMask(Game([[1, 1, 1], None]))
    env.reset()
    observ, _, terminated, _, _ = env.step(0)
    assert terminated and observ["action_mask"].tolist() == [0, 0, 0]


def test_masks_of_gymnasiums_taxi():
    env = ActionMask(TaxiEnv())
    observ, _ = env.reset(seed=0)
    for _ in range(30):
        valid = np.flatnonzero(observ["action_mask"])
        before = observ["observ"]
        invalid = set(range(6)) - set(valid.tolist())
        observ, reward, *_ = env.step(int(min(invalid)))
        assert observ["observ"] == before or reward == -10, "an invalid action has no effect"
        observ, *_ = env.step(int(valid[0]))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (None, "must hold 'action_mask', got nothing"),
        ([1, 0], r"expected 3 values of 0 or 1.*Discrete\(3\), got 2"),
        ([1, 0, 2], "expected 3 values of 0 or 1"),
        ([0.0, -np.inf, 0.0], "expected 3 values of 0 or 1"),
    ],
)
def test_masks_that_do_not_fit_raise(mask, message):
    with pytest.raises(ValueError, match=message):
        ActionMask(Game([mask])).reset()
    env = ActionMask(Game([[1, 1, 1], mask, [1, 1, 1]]))
    env.reset()
    with pytest.raises(ValueError, match=message):
        env.step(0)


def test_actions_without_masks_raise():
    with pytest.raises(UnsupportedSpaceError, match="only, got Box"):
        mask_size(spaces.Box(-1, 1, (2,)))
    with pytest.raises(UnsupportedSpaceError, match="only, got Box"):
        with_action_mask(Game([None], spaces.Box(-1, 1, (2,))))


def test_environments_that_observe_masks_are_not_wrapped():
    def observing(mask):
        return spaces.Dict({"board": spaces.Box(0, 1, (3,)), "action_mask": mask})

    env = Game([None], observation_space=observing(spaces.MultiBinary(3)))
    assert with_action_mask(env) is env
    assert isinstance(with_action_mask(Game([None])), ActionMask)
    check_action_mask(observing(spaces.Box(0, 1, (3,), np.int8)), spaces.Discrete(3))
    with pytest.raises(UnsupportedSpaceError, match=r"MultiBinary\(3\), got MultiBinary\(4\)"):
        with_action_mask(Game([None], observation_space=observing(spaces.MultiBinary(4))))
    with pytest.raises(UnsupportedSpaceError, match="expected observations with 'action_mask'"):
        check_action_mask(spaces.Box(0, 1, (3,)), spaces.Discrete(3))
