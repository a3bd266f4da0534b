import contextlib
import functools
from collections import OrderedDict

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import SyncVectorEnv

from agents.vector.batch_infos import batch_infos
from agents.vector.process_batch import make_batch_env
from tests.toys import CountingEnv


@pytest.mark.parametrize(
    "infos",
    [
        [{}, {"a": 1}, {"a": -2}],
        [{"a": 0.5, "b": True}, {"b": False}, {"c": np.float32(2)}],
        [{"a": np.arange(3)}, {}, {"a": np.ones(3, int)}],
        [{"a": "one"}, {"a": None}, {"a": [1, 2]}],
        [{"a": {"b": {"c": 1}}}, {}, {"a": {"b": {"d": "x"}}}],
        [{"final_obs": np.zeros(2)}, {}, {"final_obs": {"x": 1}}],
        [{"a": np.zeros((2, 0))}, {"a": np.ones((2, 0))}, {}],
    ],
)
def test_infos_are_joined_as_by_gymnasium(infos):
    make = [functools.partial(CountingEnv, info=lambda steps, info=info: info) for info in infos]
    with contextlib.closing(SyncVectorEnv(make)) as envs:
        assert data_equivalence(batch_infos(enumerate(infos), 3), envs.reset()[1])


class Strange:
    """Raises where it is looked at."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array")

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros(1), np.zeros(2)),
        (np.zeros(2), np.zeros(1)),  # Shapes that broadcast.
        (1.0, np.zeros(1)),
        (1, None),
        (1, 10**20),
        (np.int64(-1), np.uint64(2**63)),
        (1, "one"),
        (np.zeros(2), np.array(["a", "b"])),
        ({"a": 1}, np.zeros(2)),
        (Strange(), 1),
    ],
)
def test_values_that_do_not_fit_together_are_objects(one, other):
    infos = batch_infos([(0, {"a": one, "b": {"c": one}}), (2, {"a": other, "b": {"c": other}})], 3)
    for array, mask in ((infos["a"], infos["_a"]), (infos["b"]["c"], infos["b"]["_c"])):
        assert array.dtype == object and array.shape == (3,)
        assert array[0] is one and array[1] is None and array[2] is other
        assert mask.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 0.5], np.array([1.0, 0.5])),
        ([np.float32(1), 0.1], np.array([1.0, 0.1])),
        ([np.array(["a"]), np.array(["long"])], np.array([["a"], ["long"]])),
    ],
)
def test_numbers_of_several_types_lose_nothing(values, expected):
    joined = batch_infos(enumerate({"a": value} for value in values), 2)["a"]
    assert joined.dtype == expected.dtype
    np.testing.assert_array_equal(joined, expected)


def test_keys_of_any_type_names_of_masks_and_endless_nesting():
    infos = batch_infos([(0, {"x": 1, "_x": "own", 7: 0.5}), (1, {("a", 1): 2, "7": 1.5})], 2)
    assert infos["x"].tolist() == [1, 0] and infos["_x"].tolist() == [True, False]
    assert infos[7].tolist() == [0.5, 0] and infos["7"].tolist() == [0, 1.5]
    assert infos["_7"].tolist() == [True, True]
    assert infos["a", 1].tolist() == [0, 2]
    info = {"number": 1}
    info["self"] = info
    assert batch_infos([(0, info)], 1)["self"]["self"]["number"].tolist() == [1]


def odd_info(one, steps):
    """Infos that differ between environments and steps."""
    odd = np.zeros(1 + one) if steps else None if one else 10**20
    return OrderedDict({"odd": odd, ("key", 1) if one else 5: {"x": one, "_x": {1}}})


def test_environments_of_any_host_may_return_any_infos():
    make = [
        functools.partial(CountingEnv, [(2, "truncated")], info=functools.partial(odd_info, one))
        for one in (0, 1)
    ]
    with contextlib.closing(make_batch_env(make, 2, inline_share=True)) as batch:
        _, infos = batch.reset()
        assert infos["odd"].tolist() == [10**20, None]
        for _ in range(2):
            *_, infos = batch.step([0, 0])
        assert infos["odd"].tolist() == [10**20, None]
        assert [value.tolist() for value in infos["final_info"]["odd"]] == [[0.0], [0.0, 0.0]]
        assert infos["final_info"]["_odd"].all()
        assert infos[5]["x"].tolist() == [0, 0] and infos["_5"].tolist() == [True, False]
        assert infos["key", 1]["x"].tolist() == [0, 1]
