import warnings

import numpy as np
import pytest
from gymnasium import spaces

from agents.environments.wrappers.action_mask import (
    ActionMask,
    check_action_mask,
    mask_size,
)
from agents.errors import UnsupportedSpaceError
from agents.policies.inputs import Inputs
from tests.toys import ScriptedEnv


def game(*masks, action_space=None, observation_space=None):
    """Returns the masks in order, the first at the reset; the last ends the episode."""
    return ScriptedEnv(
        [np.array(step) for step in range(len(masks))],
        observation_space or spaces.Box(0, 99, (), np.int64),
        action_space or spaces.Discrete(3),
        infos=[{} if mask is None else {"action_mask": mask} for mask in masks],
        terminated_at=len(masks) - 1,
    )


def test_masks_are_observed():
    env = ActionMask(game([1, 0, 1], np.array([True, False, False]), np.array([0, 1, 1], np.uint8)))
    observ, info = env.reset()
    assert info == {"action_mask": [1, 0, 1]}
    for step, mask in enumerate(([1, 0, 1], [1, 0, 0], [0, 1, 1])):
        assert observ in env.observation_space
        assert (int(observ["observ"]), observ["action_mask"].tolist()) == (step, mask)
        observ = env.step(0)[0] if step < 2 else None


def test_dictionaries_keep_their_keys():
    space = spaces.Dict({"stock": spaces.Discrete(3), "orders": spaces.Box(0, 9, (2,))})
    first, last = ({"stock": stock, "orders": np.ones(2, np.float32)} for stock in (1, 2))
    masks = [{"action_mask": mask} for mask in ([1, 0, 1], [0, 1, 1])]
    env = ActionMask(ScriptedEnv([first, last], space, spaces.Discrete(3), infos=masks))
    assert list(env.observation_space) == ["action_mask", "orders", "stock"]
    observ, _ = env.reset()
    assert observ["stock"] == 1 and observ["action_mask"].tolist() == [1, 0, 1]
    assert "action_mask" not in first  # The environment's own dictionary stays as it is.
    observ = env.step(0)[0]
    assert observ["stock"] == 2 and observ["action_mask"].tolist() == [0, 1, 1]
    inputs = Inputs(env.observation_space, action_mask=True, critic_keys=["stock"])
    assert inputs.shapes == {"vector": (2,)} and inputs.value_shapes == {"vector": (5,)}


@pytest.mark.parametrize(
    "mask", [(np.array([1, 0]), np.array([0, 1, 1])), np.array([1, 0, 0, 1, 1])]
)
def test_masks_of_several_choices_are_concatenated(mask):
    env = ActionMask(game(mask, action_space=spaces.MultiDiscrete([2, 3])))
    assert env.observation_space["action_mask"] == spaces.MultiBinary(5)
    assert env.reset()[0]["action_mask"].tolist() == [1, 0, 0, 1, 1]


def test_the_last_step_needs_no_mask():
    env = ActionMask(game([1, 1, 1], None))
    env.reset()
    observ, _, terminated, _, _ = env.step(0)
    assert terminated and observ["action_mask"].tolist() == [0, 0, 0]


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
        ActionMask(game(mask)).reset()
    env = ActionMask(game([1, 1, 1], mask, [1, 1, 1]))
    env.reset()
    with pytest.raises(ValueError, match=message):
        env.step(0)


def test_actions_without_masks_raise():
    with pytest.raises(UnsupportedSpaceError, match="only, got Box"):
        mask_size(spaces.Box(-1, 1, (2,)))
    with pytest.raises(UnsupportedSpaceError, match="only, got Box"):
        ActionMask(game(None, action_space=spaces.Box(-1, 1, (2,))))


@pytest.mark.parametrize("is_observed", [False, True])
@pytest.mark.parametrize(
    ("action_space", "masks", "warns"),
    [
        (spaces.Discrete(3), [[1, 0, 0], [0, 0, 0], [1, 1, 1]], True),
        (spaces.Discrete(3), [[0, 0, 0], [1, 1, 1], [1, 1, 1]], True),
        (spaces.Discrete(3), [[1, 0, 0], [0, 1, 0], [0, 0, 0]], False),  # The last step.
        (spaces.MultiDiscrete([2, 3]), [[1, 0, 0, 0, 1]] * 3, False),
        (spaces.MultiDiscrete([2, 3]), [[0, 0, 1, 1, 1]] * 3, True),
    ],
)
def test_masks_without_a_valid_action_warn(action_space, masks, warns, is_observed):
    if is_observed:
        space = spaces.Dict({"action_mask": spaces.MultiBinary(len(masks[0]))})
        observed = [{"action_mask": np.array(mask, np.int8)} for mask in masks]
        inner = ScriptedEnv(observed, space, action_space, terminated_at=2)
    else:
        inner = game(*masks, action_space=action_space)
    env = ActionMask(inner)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        env.reset()
        for _ in masks[1:]:
            env.step(action_space.sample())
    assert any("no action of" in str(one.message) for one in shown) == warns


def test_observations_that_hold_masks_stay_as_they_are():
    def observing(mask):
        return spaces.Dict({"board": spaces.Box(0, 1, (3,)), "action_mask": mask})

    env = game(None, observation_space=observing(spaces.MultiBinary(3)))
    assert ActionMask(env).observation_space == env.observation_space
    check_action_mask(observing(spaces.Box(0, 1, (3,), np.int8)), spaces.Discrete(3))
    with pytest.raises(UnsupportedSpaceError, match=r"MultiBinary\(3\), got MultiBinary\(4\)"):
        ActionMask(game(None, observation_space=observing(spaces.MultiBinary(4))))
    with pytest.raises(UnsupportedSpaceError, match="expected observations with 'action_mask'"):
        check_action_mask(spaces.Box(0, 1, (3,)), spaces.Discrete(3))
