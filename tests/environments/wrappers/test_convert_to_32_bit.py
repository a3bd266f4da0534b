import re

import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from hypothesis.extra import numpy as hypothesis_numpy

from agents.environments.wrappers.convert_to_32_bit import ConvertTo32Bit
from agents.errors import UnsupportedSpaceError


@hypothesis.given(hypothesis_numpy.array_shapes(max_dims=3, max_side=3))
@hypothesis.settings(deadline=None, max_examples=20)
def test_nested_observations(script, shape):
    space = spaces.Dict(
        {
            "position": spaces.Box(-2, 2, shape, np.float64),
            "image": spaces.Box(0, 255, shape, np.uint8),
            "rest": spaces.Tuple(
                [
                    spaces.Box(-5, 5, shape, np.int64),
                    spaces.Discrete(3, start=-1),
                    spaces.MultiDiscrete([3, 4], start=[-1, 2]),
                    spaces.MultiBinary(2),
                    spaces.Box(0, 9, shape, np.uint64),
                ]
            ),
        }
    )
    space.seed(0)
    observ = space.sample()
    env = ConvertTo32Bit(script([observ], space))
    converted, _ = env.reset()
    assert env.observation_space.contains(converted)
    for found in (converted, env.observation_space.sample()):
        assert found["position"].dtype == env.observation_space["position"].dtype == np.float32
        assert found["image"].dtype == env.observation_space["image"].dtype == np.uint8
        assert [leaf.dtype for leaf in found["rest"]][2:] == [np.int32, np.int8, np.uint32]
    assert [leaf.dtype for leaf in env.observation_space["rest"]] == [np.int32] * 3 + [
        np.int8,
        np.uint32,
    ]
    assert converted["rest"][1].dtype == np.int32
    np.testing.assert_allclose(converted["position"], observ["position"], rtol=1e-6)
    assert data_equivalence(
        tuple(map(np.int64, converted["rest"])), tuple(map(np.int64, observ["rest"]))
    )
    assert data_equivalence(env.step(0)[0], converted)


def test_order_of_dictionary_keys_is_kept(script):
    space = spaces.Dict([("b", spaces.Discrete(2)), ("a", spaces.Discrete(2))])
    env = ConvertTo32Bit(script([{"b": 0, "a": 1}], space))
    assert list(env.observation_space.spaces) == ["b", "a"] == list(env.reset()[0])


def test_bounds_beyond_32_bits(script):
    space = spaces.Tuple(
        [
            spaces.Box(-1e300, 1e300, (1,), np.float64),
            spaces.Box(-np.inf, np.inf, (1,), np.int64),
        ]
    )
    env = ConvertTo32Bit(script([], space))
    limits = np.iinfo(np.int32)
    assert env.observation_space == spaces.Tuple(
        [
            spaces.Box(-np.inf, np.inf, (1,), np.float32),
            spaces.Box(limits.min, limits.max, (1,), np.int32),
        ]
    )


def test_reward_is_a_32_bit_float(script, frames):
    env = ConvertTo32Bit(script(frames(()), spaces.Box(0, 9, ()), rewards=[0.1, 2, np.float64(3)]))
    env.reset()
    for expected in (0.1, 2, 3):
        reward = env.step(0)[1]
        assert type(reward) is np.float32
        assert reward == np.float32(expected)


@pytest.mark.parametrize("reward", [1e300, np.nan, -np.inf])
def test_rewards_that_do_not_fit_raise(reward, script, frames):
    env = ConvertTo32Bit(script(frames(()), spaces.Box(0, 9, ()), rewards=[reward]))
    env.reset()
    with pytest.raises(
        ValueError, match=re.escape(f"reward must be finite in 32 bits, got {reward}")
    ):
        env.step(0)


@pytest.mark.parametrize(
    "value, found",
    [
        (np.array([0, 1e300]), "1e+300"),
        (np.array([np.nan, 0], np.float32), "nan"),
        (np.array([0, 2**31]), "2147483648"),
        (np.array([-(2**31) - 1, 0]), "-2147483649"),
        (np.array([2**32, 0], np.uint64), "4294967296"),
    ],
)
def test_observations_that_do_not_fit_raise_and_the_leaf_is_named(value, found, script):
    box = spaces.Box(0, 1, value.shape, value.dtype.type)
    space = spaces.Dict({"fine": spaces.Discrete(2), "parts": spaces.Tuple([box])})
    env = ConvertTo32Bit(script([{"fine": 0, "parts": (value,)}], space))
    pattern = rf"observation\['parts'\]\[0\] must be .* in 32 bits, got {re.escape(found)}"
    with pytest.raises(ValueError, match=pattern):
        env.reset()


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(3),
        spaces.Sequence(spaces.Box(0, 1, (), np.float64)),
        spaces.Discrete(2**31),
        spaces.Discrete(2, start=2**31 - 1),
        spaces.MultiDiscrete([2, 3], start=[0, -(2**31) - 1]),
    ],
)
def test_unsupported_spaces_raise(space, script):
    with pytest.raises(UnsupportedSpaceError, match="ConvertTo32Bit"):
        ConvertTo32Bit(script([], space))
