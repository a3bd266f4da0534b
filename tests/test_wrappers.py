import re
import subprocess
import sys

import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env, data_equivalence
from hypothesis import strategies
from hypothesis.extra import numpy as hypothesis_numpy

from agents.tools import wrappers
from agents.tools.errors import UnsupportedSpaceError
from agents.tools.mock_environment import MockEnvironment

SHAPES = hypothesis_numpy.array_shapes(min_dims=0, max_dims=3, max_side=3)


class Script(gymnasium.Env):
    """Plays given observations in one buffer that it reuses; rewards are 1, 2, ...; records the actions."""

    def __init__(self, observs, space, action_space=None, terminated_at=None, truncated_at=None, rewards=None):
        self.observation_space = space
        self.action_space = action_space or spaces.Discrete(3)
        self.observs, self.rewards = observs, rewards
        self.terminated_at, self.truncated_at = terminated_at, truncated_at
        self.buffer = None
        self.actions, self.resets = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets.append(options)
        self.time = 0
        return self.observe(), {"time": 0}

    def step(self, action):
        self.actions.append(action)
        self.time += 1
        reward = self.rewards[self.time - 1] if self.rewards else float(self.time)
        ends = self.time == self.terminated_at, self.time == self.truncated_at
        return self.observe(), reward, *ends, {"time": self.time}

    def observe(self):
        observ = self.observs[min(self.time, len(self.observs) - 1)]
        if not isinstance(observ, np.ndarray):
            return observ
        if self.buffer is None:
            self.buffer = observ.copy()
        self.buffer[...] = observ
        return self.buffer


def play(env, actions, seed=None):
    """Returns copies of all observations, those of resets included."""
    observs = [np.copy(env.reset(seed=seed)[0])]
    for action in actions:
        observ, _, terminated, truncated, _ = env.step(action)
        observs.append(np.copy(observ))
        if terminated or truncated:
            observs.append(np.copy(env.reset()[0]))
    return observs


def frames(shape, space_dtype=np.float32, count=8):
    return [np.full(shape, index + 1, space_dtype) for index in range(count)]


def test_modules_do_not_import_tensorflow():
    code = (
        "import sys; from agents.tools import wrappers, attr_dict, mock_environment;"
        "sys.exit(bool({'tensorflow', 'keras', 'torch', 'jax'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.AutoReset,
        wrappers.ConvertTo32Bit,
        wrappers.FrameDelta,
        wrappers.RangeNormalize,
        lambda env: wrappers.ActionRepeat(env, 2),
        lambda env: wrappers.FrameHistory(env, [0, 2], flatten=True),
        lambda env: wrappers.FrameHistory(env, [0, 2], flatten=False),
        lambda env: wrappers.LimitDuration(env, 3),
        lambda env: wrappers.RandomStart(env, 2),
    ],
)
@pytest.mark.filterwarnings("ignore:.*The environment .* is different from the unwrapped version:UserWarning")
@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes:UserWarning")
def test_wrapped_environments_follow_the_interface(wrap):
    check_env(wrap(MockEnvironment((2, 3), (2,), 4, 9)))


def test_wrappers_survive_the_environment_specification():
    env = wrappers.RandomStart(gymnasium.make("CartPole-v1"), 3)
    env = wrappers.ActionRepeat(wrappers.FrameHistory(env, [0, 2], True), 2)
    again = gymnasium.make(env.spec)
    assert str(again) == str(env)
    actions = [0, 1, 1, 0, 1, 0, 0, 0, 0, 1]
    np.testing.assert_array_equal(play(again, actions, seed=3), play(env, actions, seed=3))


class TestNamesOfGymnasium:
    def test_auto_reset_starts_the_next_episode(self):
        env = wrappers.AutoReset(Script(frames(()), spaces.Box(0, 9, ()), terminated_at=1))
        env.reset()
        assert env.step(0)[2]
        observ, reward, terminated, _, _ = env.step(0)
        assert (observ, reward, terminated) == (1, 0, False)

    def test_clip_action(self):
        inner = Script(frames(()), spaces.Box(0, 9, ()), spaces.Box(-1, 2, (2,)))
        env = wrappers.ClipAction(inner)
        env.reset()
        env.step(np.array([-5, 5], np.float32))
        np.testing.assert_array_equal(inner.actions, [[-1, 2]])

    def test_limit_duration_truncates(self):
        env = wrappers.LimitDuration(Script(frames(()), spaces.Box(0, 9, ())), 2)
        env.reset()
        assert [env.step(0)[2:4] for _ in range(2)] == [(False, False), (False, True)]


class TestActionRepeat:
    def test_sums_rewards_and_gives_the_last_info(self):
        inner = Script(frames(()), spaces.Box(0, 9, ()))
        env = wrappers.ActionRepeat(inner, 3)
        env.reset()
        observ, reward, terminated, truncated, info = env.step(2)
        assert (float(observ), reward, terminated, truncated, info) == (4, 6, False, False, {"time": 3})
        assert inner.actions == [2, 2, 2]

    @pytest.mark.parametrize("flag", ["terminated", "truncated"])
    def test_stops_at_the_end_and_keeps_the_flags_apart(self, flag):
        inner = Script(frames(()), spaces.Box(0, 9, ()), **{f"{flag}_at": 2})
        env = wrappers.ActionRepeat(inner, 5)
        env.reset()
        _, reward, terminated, truncated, _ = env.step(0)
        assert (reward, len(inner.actions)) == (3, 2)
        assert (terminated, truncated) == (flag == "terminated", flag == "truncated")

    @pytest.mark.parametrize("amount", [0, -1, 1.5, True, "2"])
    def test_refuses_other_amounts(self, amount):
        with pytest.raises(ValueError, match=re.escape(f"amount must be a whole number of at least 1, got {amount!r}")):
            wrappers.ActionRepeat(MockEnvironment((), (), 1, 1), amount)


class TestRandomStart:
    def make(self, max_steps, **kwargs):
        return wrappers.RandomStart(Script(frames((), count=50), spaces.Box(0, 99, ()), **kwargs), max_steps)

    def test_takes_every_number_of_steps_up_to_the_maximum(self):
        env = self.make(3)
        env.reset(seed=0)
        assert {env.reset()[1]["time"] for _ in range(60)} == {0, 1, 2, 3}

    def test_no_steps(self):
        env = self.make(0)
        assert env.reset() == (1, {"time": 0})
        assert env.unwrapped.actions == []

    def test_returns_the_observation_after_the_steps(self):
        env = self.make(4)
        env.reset(seed=0)
        for _ in range(10):
            observ, info = env.reset()
            assert observ == info["time"] + 1

    def test_equal_seeds_give_equal_episodes_whatever_else_is_sampled(self):
        first, second = self.make(5), self.make(5)
        first.action_space.seed(1)
        for env in (first, second):
            env.reset(seed=7)
            for _ in range(5):
                env.action_space.sample()
                env.reset()
        assert len(first.unwrapped.actions) > 5
        assert first.unwrapped.actions == second.unwrapped.actions

    def test_resets_without_a_seed_and_other_seeds_give_other_episodes(self):
        env = self.make(40)
        times = [env.reset(seed=7)[1]["time"]] + [env.reset()[1]["time"] for _ in range(5)]
        assert len(set(times)) > 1
        assert len({env.reset(seed=seed)[1]["time"] for seed in range(6)}) > 1

    def test_leaves_the_sampler_of_others_alone(self):
        env = self.make(5)
        env.action_space.seed(3)
        env.reset(seed=0)
        untouched = spaces.Discrete(3, seed=3)
        assert [env.action_space.sample() for _ in range(20)] == [untouched.sample() for _ in range(20)]

    @pytest.mark.parametrize("flag", ["terminated_at", "truncated_at"])
    def test_goes_on_in_the_next_episode(self, flag):
        env = self.make(9, **{flag: 2})
        env.reset(seed=0)
        seeding_resets = len(env.unwrapped.resets)
        for _ in range(20):
            taken = len(env.unwrapped.actions)
            observ, info = env.reset(options={"level": 1})
            assert info["time"] == (len(env.unwrapped.actions) - taken) % 2
            assert observ == info["time"] + 1
        resets = env.unwrapped.resets[seeding_resets:]
        assert len(resets) > 20
        assert all(options == {"level": 1} for options in resets)

    def test_refuses_negative_numbers(self):
        with pytest.raises(ValueError, match="max_steps must be a whole number of at least 0, got -1"):
            self.make(-1)


class TestFrameHistory:
    @hypothesis.given(
        SHAPES, strategies.lists(strategies.integers(0, 6), max_size=4), strategies.booleans(), strategies.randoms()
    )
    @hypothesis.settings(deadline=None, max_examples=50)
    def test_gives_the_frames_at_the_indices(self, shape, ages, flatten, random):
        ages = [*ages, 0]
        random.shuffle(ages)
        played = frames(shape)
        env = wrappers.FrameHistory(Script(played, spaces.Box(0, 9, shape)), ages, flatten)
        for time, observ in enumerate(play(env, [0] * 7)):
            expected = np.stack([played[max(0, time - age)] for age in ages])
            if flatten and shape:
                expected = expected.reshape(-1, *shape[1:])
            np.testing.assert_array_equal(observ, expected)
            assert env.observation_space.contains(observ)

    def test_space_has_the_bounds_and_type_of_each_frame(self):
        space = spaces.Box(np.array([0, 5], np.uint8), np.array([9, 200], np.uint8), dtype=np.uint8)
        env = wrappers.FrameHistory(Script([], space), [0, 1], flatten=True)
        expected = spaces.Box(np.array([0, 5, 0, 5], np.uint8), np.array([9, 200, 9, 200], np.uint8), dtype=np.uint8)
        assert env.observation_space == expected

    def test_a_new_episode_forgets_the_old_one(self):
        env = wrappers.FrameHistory(Script(frames(()), spaces.Box(0, 9, ()), terminated_at=3), [0, 1], False)
        np.testing.assert_array_equal(play(env, [0] * 4), [[1, 1], [2, 1], [3, 2], [4, 3], [1, 1], [2, 1]])

    def test_what_it_gives_does_not_change_later(self):
        env = wrappers.FrameHistory(Script(frames((1,)), spaces.Box(0, 9, (1,))), [0], True)
        observ, _ = env.reset()
        env.step(0)
        np.testing.assert_array_equal(observ, [1])

    @pytest.mark.parametrize("ages", [[], [1, 2], [0, -1], [0, 0.5]])
    def test_refuses_indices(self, ages):
        with pytest.raises(ValueError, match="FrameHistory: past_indices must"):
            wrappers.FrameHistory(MockEnvironment((), (), 1, 1), ages, False)


class TestFrameDelta:
    @hypothesis.given(SHAPES, strategies.sampled_from([np.uint8, np.int8, np.uint16, np.int32, np.int64, np.float32]))
    @hypothesis.settings(deadline=None, max_examples=40)
    def test_gives_differences(self, shape, dtype):
        played = [np.full(shape, value, dtype) for value in (100, 3, 5, 120)]
        env = wrappers.FrameDelta(Script(played, spaces.Box(0, 120, shape, dtype)))
        for observ, expected in zip(play(env, [0] * 3), [0, -97, 2, 115], strict=True):
            np.testing.assert_array_equal(observ, np.full(shape, expected))
            assert env.observation_space.contains(observ)

    @pytest.mark.parametrize("dtype, wide", [(np.uint8, np.int16), (np.int8, np.int16), (np.uint16, np.int32)])
    def test_extreme_integers_do_not_wrap_around(self, dtype, wide):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        played = [np.array([value], dtype) for value in (high, low, high)]
        env = wrappers.FrameDelta(Script(played, spaces.Box(low, high, (1,), dtype)))
        span = high - low
        assert env.observation_space == spaces.Box(-span, span, (1,), wide)
        np.testing.assert_array_equal(play(env, [0, 0]), [[0], [-span], [span]])

    def test_infinite_and_huge_bounds(self):
        limit = np.finfo(np.float32).max
        space = spaces.Box(np.array([-np.inf, -limit, 1], np.float32), np.array([np.inf, limit, 2], np.float32))
        env = wrappers.FrameDelta(Script([], space))
        np.testing.assert_array_equal(env.observation_space.high, [np.inf, np.inf, 1])
        np.testing.assert_array_equal(env.observation_space.low, [-np.inf, -np.inf, -1])

    def test_a_new_episode_starts_at_zero(self):
        env = wrappers.FrameDelta(Script(frames(()), spaces.Box(0, 9, ()), terminated_at=2))
        np.testing.assert_array_equal(play(env, [0] * 3), [0, 1, 1, 0, 1])

    @pytest.mark.parametrize("dtype", [np.int64, np.uint64])
    def test_refuses_what_no_integer_holds(self, dtype):
        limits = np.iinfo(dtype)
        space = spaces.Box(np.full(2, limits.min, dtype), np.full(2, limits.max, dtype), dtype=dtype)
        with pytest.raises(UnsupportedSpaceError, match="do not fit into int64"):
            wrappers.FrameDelta(Script([], space))


@pytest.mark.parametrize("wrap", [wrappers.FrameDelta, lambda env: wrappers.FrameHistory(env, [0], False)])
class TestFrameWrappers:
    def test_need_a_box(self, wrap):
        with pytest.raises(UnsupportedSpaceError, match=re.escape("observes a Box, got Discrete(4)")):
            wrap(Script([], spaces.Discrete(4)))

    def test_step_before_reset_is_refused(self, wrap):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            wrap(Script(frames(()), spaces.Box(0, 9, ()))).step(0)


@strategies.composite
def ranges(draw, dtype):
    """Lower and upper bounds, equal ones included."""
    shape = draw(SHAPES)
    elements = strategies.floats(-1000, 1000, width=np.dtype(dtype).itemsize * 8)
    bounds = [draw(hypothesis_numpy.arrays(dtype, shape, elements=elements)) for _ in range(2)]
    return np.asarray(np.minimum(*bounds)), np.asarray(np.maximum(*bounds))


class TestRangeNormalize:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @hypothesis.given(data=strategies.data())
    @hypothesis.settings(deadline=None, max_examples=100)
    def test_bounds_become_one_and_nothing_leaves_them(self, dtype, data):
        low, high = data.draw(ranges(dtype))
        space = spaces.Box(low, high, dtype=dtype)
        space.seed(0)
        inner = Script([low, high, space.sample()], space, space)
        env = wrappers.RangeNormalize(inner)
        assert env.observation_space == env.action_space == spaces.Box(-1, 1, low.shape, dtype)
        actions = [-np.ones_like(low), np.ones_like(low), np.zeros_like(low), env.action_space.sample()]
        first, second, *others = play(env, actions)
        np.testing.assert_array_equal(first, -1)
        np.testing.assert_array_equal(second, np.where(low == high, -1, 1))
        assert all(env.observation_space.contains(observ) for observ in others)
        assert all(space.contains(action) for action in inner.actions)
        np.testing.assert_array_equal(inner.actions[0], low)
        np.testing.assert_allclose(inner.actions[1], high, rtol=0, atol=1e-12)
        np.testing.assert_allclose(inner.actions[2], (low.astype(float) + high) / 2, rtol=1e-6, atol=1e-6)

    def test_images_become_floats(self):
        played = [np.array([value], np.uint8) for value in (0, 255, 51)]
        env = wrappers.RangeNormalize(Script(played, spaces.Box(0, 255, (1,), np.uint8)), observ=True)
        assert env.observation_space == spaces.Box(-1, 1, (1,), np.float32)
        np.testing.assert_allclose(play(env, [0, 0]), [[-1], [1], [-0.6]], rtol=1e-6)

    @pytest.mark.parametrize(
        "space",
        [
            spaces.Box(np.array([0, 0], np.float32), np.array([1, np.inf], np.float32)),
            spaces.Box(-np.inf, np.inf, (2,), np.int64),
            spaces.Box(-1.7e308, 1.7e308, (2,), np.float64),
            spaces.Discrete(3),
        ],
    )
    def test_without_a_finite_range(self, space):
        inner = Script(frames((2,), space.dtype), space, space)
        env = wrappers.RangeNormalize(inner)
        assert env.observation_space == env.action_space == space
        assert env.reset()[0] is inner.buffer
        action = np.full(2, 0.5)
        env.step(action)
        assert inner.actions[0] is action
        for name in ("observ", "action"):
            with pytest.raises(ValueError, match=f"{name}=True needs a Box with finite bounds"):
                wrappers.RangeNormalize(inner, **{name: True})

    def test_switched_off(self):
        inner = MockEnvironment((2,), (3,), 1, 1)
        env = wrappers.RangeNormalize(inner, observ=False, action=False)
        assert (env.observation_space, env.action_space) == (inner.observation_space, inner.action_space)
        only_action = wrappers.RangeNormalize(inner, observ=False)
        assert only_action.observation_space == inner.observation_space
        assert only_action.action_space == spaces.Box(-1, 1, (3,))

    def test_integer_actions_are_left_alone(self):
        inner = Script([], spaces.Discrete(2), spaces.Box(0, 9, (1,), np.int32))
        assert wrappers.RangeNormalize(inner).action_space == inner.action_space
        with pytest.raises(ValueError, match="not of floats"):
            wrappers.RangeNormalize(inner, action=True)

    def test_refuses_other_arguments(self):
        with pytest.raises(ValueError, match="observ must be None, True or False, got 1"):
            wrappers.RangeNormalize(MockEnvironment((), (), 1, 1), observ=1)


class TestConvertTo32Bit:
    @hypothesis.given(hypothesis_numpy.array_shapes(max_dims=3, max_side=3))
    @hypothesis.settings(deadline=None, max_examples=20)
    def test_nested_observations(self, shape):
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
        env = wrappers.ConvertTo32Bit(Script([observ], space))
        converted, _ = env.reset()
        assert env.observation_space.contains(converted)
        for found in (converted, env.observation_space.sample()):
            assert found["position"].dtype == env.observation_space["position"].dtype == np.float32
            assert found["image"].dtype == env.observation_space["image"].dtype == np.uint8
            assert [leaf.dtype for leaf in found["rest"]][2:] == [np.int32, np.int8, np.uint32]
        assert [leaf.dtype for leaf in env.observation_space["rest"]] == [np.int32] * 3 + [np.int8, np.uint32]
        assert converted["rest"][1].dtype == np.int32
        np.testing.assert_allclose(converted["position"], observ["position"], rtol=1e-6)
        assert data_equivalence(tuple(map(np.int64, converted["rest"])), tuple(map(np.int64, observ["rest"])))
        assert data_equivalence(env.step(0)[0], converted)

    def test_order_of_a_dictionary_is_kept(self):
        space = spaces.Dict([("b", spaces.Discrete(2)), ("a", spaces.Discrete(2))])
        env = wrappers.ConvertTo32Bit(Script([{"b": 0, "a": 1}], space))
        assert list(env.observation_space.spaces) == ["b", "a"] == list(env.reset()[0])

    def test_bounds_beyond_32_bits(self):
        space = spaces.Tuple([spaces.Box(-1e300, 1e300, (1,), np.float64), spaces.Box(-np.inf, np.inf, (1,), np.int64)])
        env = wrappers.ConvertTo32Bit(Script([], space))
        limits = np.iinfo(np.int32)
        assert env.observation_space == spaces.Tuple(
            [spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Box(limits.min, limits.max, (1,), np.int32)]
        )

    def test_reward_is_a_32_bit_float(self):
        env = wrappers.ConvertTo32Bit(Script(frames(()), spaces.Box(0, 9, ()), rewards=[0.1, 2, np.float64(3)]))
        env.reset()
        for expected in (0.1, 2, 3):
            reward = env.step(0)[1]
            assert type(reward) is np.float32
            assert reward == np.float32(expected)

    @pytest.mark.parametrize("reward", [1e300, np.nan, -np.inf])
    def test_refuses_rewards(self, reward):
        env = wrappers.ConvertTo32Bit(Script(frames(()), spaces.Box(0, 9, ()), rewards=[reward]))
        env.reset()
        with pytest.raises(ValueError, match=re.escape(f"reward must be finite in 32 bits, got {reward}")):
            env.step(0)

    @pytest.mark.parametrize(
        "value, shown",
        [
            (np.array([0, 1e300]), "1e+300"),
            (np.array([np.nan, 0], np.float32), "nan"),
            (np.array([0, 2**31]), "2147483648"),
            (np.array([-(2**31) - 1, 0]), "-2147483649"),
            (np.array([2**32, 0], np.uint64), "4294967296"),
        ],
    )
    def test_refuses_observations_and_names_the_part(self, value, shown):
        box = spaces.Box(0, 1, value.shape, value.dtype.type)
        space = spaces.Dict({"fine": spaces.Discrete(2), "parts": spaces.Tuple([box])})
        env = wrappers.ConvertTo32Bit(Script([{"fine": 0, "parts": (value,)}], space))
        pattern = rf"observation\['parts'\]\[0\] must be .* in 32 bits, got {re.escape(shown)}"
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
    def test_refuses_spaces(self, space):
        with pytest.raises(UnsupportedSpaceError, match="ConvertTo32Bit"):
            wrappers.ConvertTo32Bit(Script([], space))
