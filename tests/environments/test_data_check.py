import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.environments.data_check import DataCheck, DataError, check_types, unpack_reset
from agents.errors import InvalidDataError
from agents.spaces import leaf_spaces
from agents.workers.environment_group import EnvironmentGroup
from agents.workers.shared_arrays import BatchArrays, Layout

BOX = spaces.Box(-1, 1, (2,), np.float32)
IMAGE = spaces.Box(0, 255, (2, 2, 1), np.uint8)
MIXED = spaces.Dict(a=spaces.Discrete(3), b=spaces.Tuple([BOX, spaces.MultiBinary(2)]))
VALID = np.zeros(2, np.float32)

# By kind, what `step` returns in place of (VALID, 0.5, False, False, {}), and words of the message;
# tests/faults/test_environment_faults.py returns them in batches.
BAD_STEPS = {
    "observation of a smaller shape": ({0: np.zeros(1, np.float32)}, r"shape \(1,\), expected Box"),
    "observation of a larger shape": ({0: np.zeros(3, np.float32)}, r"shape \(3,\), expected Box"),
    "observation of integers": ({0: np.zeros(2, int)}, "type int64, expected Box"),
    "complex observation": ({0: np.zeros(2, complex)}, "type complex128, expected Box"),
    "observation that is not an array": ({0: "north"}, r"shape \(\), expected Box"),
    "no observation": ({0: None}, r"shape \(\), expected Box"),
    "NaN in the observation": ({0: np.array([np.nan, 0], np.float32)}, r"returned nan at \[0\]"),
    "observation that overflows": ({0: np.array([0, 1e300])}, r"returned inf at \[1\]"),
    "NaN reward": ({1: float("nan")}, "reward nan, expected a finite number"),
    "infinite reward": ({1: np.float64("inf")}, "reward inf, expected a finite number"),
    "complex reward": ({1: 1j}, "reward 1j, expected a number"),
    "reward that is a vector": ({1: np.zeros(1)}, r"reward array\(\[0.\]\), expected a number"),
    "no reward": ({1: None}, "reward None, expected a number"),
    "flag that is no boolean": ({2: None}, "None for terminated, expected True or False"),
    "flag that is a word": ({3: "no"}, "'no' for truncated, expected True or False"),
    "info that is no dictionary": ({4: [1]}, r"the info \[1\], expected a dictionary"),
    "four values": (4, "not enough values to unpack"),
    "no values": (None, "cannot unpack non-iterable NoneType"),
}


class BadEnv(gymnasium.Env):
    """Returns other data, by index, from its second step or its second reset on."""

    observation_space, action_space = BOX, spaces.Discrete(2)

    def __init__(self, bad=None, method="step", ends=False):
        self._bad, self._method, self._ends, self._calls = bad, method, ends, 0

    def reset(self, *, seed=None, options=None):
        return self._corrupt("reset", (VALID, {}))

    def step(self, action):
        return self._corrupt("step", (VALID, 0.5, self._ends, False, {}))

    def _corrupt(self, method, returned):
        self._calls += method == self._method
        if self._bad is None or method != self._method or self._calls < 2:
            return returned
        return tuple(self._bad.get(index, value) for index, value in enumerate(returned))


def make(*envs):
    group = EnvironmentGroup([lambda env=env: env for env in envs])
    layout = Layout(len(envs), BOX, spaces.Discrete(2))
    arrays = BatchArrays(layout)
    arrays.block[:] = 0
    arrays.seed[:] = -1
    arrays.mask[:] = True
    group.attach(arrays, 0, autoreset=True)
    group.reset()
    return group, arrays


def test_bad_observations_of_an_autoreset_are_refused():
    for bad, message in (BAD_STEPS[kind] for kind in BAD_STEPS if "observation" in kind):
        group, _ = make(BadEnv(), BadEnv(bad, "reset", ends=True))
        with pytest.raises(InvalidDataError, match=message) as caught, np.errstate(over="ignore"):
            group.step()
        assert caught.value.env_index == 1


def test_two_bad_environments_are_both_named_and_valid_again_afterwards():
    bad = {0: np.full(2, np.nan, np.float32)}
    group, arrays = make(BadEnv(bad, ends=True), BadEnv(), BadEnv(bad))
    group.step()
    with pytest.raises(InvalidDataError) as caught:
        group.step()
    assert [caught.value.env_index, *(one.env_index for one in caught.value.others)] == [0, 2]
    for env in (0, 2):
        group.envs[env]._bad = None
    assert len(group.step()) == 1


@pytest.mark.parametrize("ends", [False, True])
def test_the_first_finite_number_out_of_bounds_is_named_and_learned_from(ends):
    far = BadEnv({0: np.array([0, 5], np.float32)}, ends=ends)
    group, arrays = make(BadEnv(), far)
    group.step()
    with pytest.warns(UserWarning, match=r"returned 5.0 at \[1\] in an observation of Box.* widen"):
        group.step()
    rows = arrays.final_observ if ends else arrays.observ
    np.testing.assert_array_equal(rows[0], [[0, 0], [0, 5]])
    group.step()  # Warnings are errors here: the second one is not named.
    far._bad = {0: np.array([7, np.nan], np.float32)}
    with pytest.raises(InvalidDataError, match=r"returned nan at \[1\]"):
        group.step()


@pytest.mark.parametrize(
    ("space", "observ"),
    [
        (BOX, np.zeros(2, np.float64)),
        (BOX, [0.5, 0.5]),
        (IMAGE, np.full((2, 2, 1), 255, np.uint8)),
        (IMAGE, np.full((2, 2, 1), 255, int)),
        (spaces.Discrete(3), 2),
        (spaces.Discrete(3), np.int32(2)),
        (spaces.MultiBinary(2), np.array([True, False])),
        (MIXED, {"a": 1, "b": (VALID, np.zeros(2, np.int8))}),
    ],
)
def test_elements_of_the_space_pass(space, observ):
    check = DataCheck(space, 1)
    leaves = check.leaves(observ)
    batch = [np.asarray(leaf)[None] for leaf in leaves]
    assert check.are_in_bounds(batch)
    check.check_bounds(batch, 0)


@pytest.mark.parametrize(
    ("space", "observ", "words"),
    [
        (IMAGE, np.full((2, 2, 1), 256), "with 256, expected Box"),
        (IMAGE, np.full((2, 2, 1), -1), "with -1, expected Box"),
        (IMAGE, np.zeros((2, 2, 1), np.float32), "type float32, expected Box"),
        (BOX, [[0.5], [0.5, 0.5]], "[[0.5], [0.5, 0.5]], expected Box"),
        (spaces.MultiBinary(2), np.zeros(2), "type float64, expected MultiBinary(2)"),
        (MIXED, VALID, "expected a dictionary with 'a'"),
        (MIXED, {"a": 1}, "the keys 'a', expected a dictionary with 'b'"),
        (MIXED, {"a": 1, "b": (VALID,)}, "1 values at ['b'], expected 2 values"),
        (MIXED, {"a": 1, "b": (VALID, [1])}, "shape (1,) at ['b'][1], expected MultiBinary(2)"),
        (MIXED, {"a": 0.5, "b": (VALID, [1, 1])}, "type float64 at ['a'], expected Discrete(3)"),
    ],
)
def test_other_structures_shapes_and_types_are_refused(space, observ, words):
    with pytest.raises(DataError, match=f"returned .*{re.escape(words)}"):
        DataCheck(space, 1).leaves(observ)


def test_bounds_of_every_leaf_are_checked():
    check = DataCheck(MIXED, 2)
    batch = [np.zeros((2, *leaf.shape), leaf.dtype) for leaf in leaf_spaces(MIXED)]
    assert check.are_in_bounds(batch)
    for leaf in batch:
        leaf[1] = 7
        assert not check.are_in_bounds(batch)
        check.check_bounds(batch, 0)
        if leaf.dtype == np.float32:
            with pytest.warns(UserWarning, match=r"returned 7.0 at \['b'\]\[0\]\[0\] in an"):
                check.check_bounds(batch, 1)
            assert check.are_in_bounds(batch)
            leaf[1] = np.nan
        with pytest.raises(DataError, match="returned (7|nan)"):
            check.check_bounds(batch, 1)
        check.fill(batch, 1)
        assert check.are_in_bounds(batch)


def test_usual_and_unusual_valid_types_pass():
    check_types(np.int64(3), np.True_, 1, {})
    check_types(True, False, np.False_, {})
    assert unpack_reset((VALID, {"a": 1})) == (VALID, {"a": 1})
    for returned in (VALID, (VALID,), (VALID, None), None):
        with pytest.raises(DataError):
            unpack_reset(returned)
