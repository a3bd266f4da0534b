import contextlib
import sys

import cloudpickle
import gymnasium
import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import strategies
from hypothesis.extra import numpy as hypothesis_numpy

from agents.tools import BatchEnv, InGraphBatchEnv, MockAlgorithm, MockEnvironment, make_batch_env, simulate
from agents.tools.errors import EnvironmentRaisedError
from agents.tools.simulation import _episode_sums

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Counter(gymnasium.Env):
    """Observes its own step count since `start`; rewards are the square of it; a step in action 1 ends the episode."""

    observation_space = spaces.Dict(count=spaces.Box(0, 1e6, (16,), np.float32), number=spaces.Discrete(10**6))
    action_space = spaces.Discrete(2)

    def __init__(self, start=0, duration=1000, ending="terminated", fails_at=None):
        self.start, self.duration, self.ending, self.fails_at = start, duration, ending, fails_at

    def observe(self):
        return {"count": np.full(16, self.count, np.float32), "number": self.count}

    def reset(self, *, seed=None, options=None):
        self.count = self.start
        return self.observe(), {}

    def step(self, action):
        self.count += 1
        if self.count == self.fails_at:
            raise ZeroDivisionError(f"at {self.count}")
        ended = bool(action) or self.count - self.start == self.duration
        flags = ended and self.ending != "truncated", ended and self.ending != "terminated"
        return self.observe(), float(self.count**2), *flags, {}


class Recorder:
    """Acts by a rule, and keeps all that it is given in variables [T, B, ...]; notes the order of calls."""

    def __init__(self, batch_env, steps, act=lambda observ, deterministic: tf.zeros_like(observ["number"])):
        self.act, self.calls = act, []
        make = lambda leaf: tf.Variable(tf.zeros([steps, *leaf.shape], leaf.dtype))  # noqa: E731
        names = ("observ", "action", "reward", "terminated", "truncated", "final_observ")
        self.memory = {name: tf.nest.map_structure(make, getattr(batch_env, name)) for name in names}
        self.begun = tf.Variable(tf.zeros([steps, batch_env.num_envs], tf.bool))
        self.ended = tf.Variable(tf.zeros([steps, batch_env.num_envs], tf.bool))
        self.step = tf.Variable(0)

    def perform(self, observ, deterministic):
        self.calls.append("perform")
        return self.act(observ, deterministic)

    def experience(self, step, transition):
        self.calls.append("experience")
        assert transition.keys() == self.memory.keys()
        self.step.assign(step)
        tf.nest.map_structure(
            lambda variable, value: variable.scatter_nd_update([[step]], value[None]), self.memory, dict(transition)
        )

    def end_episode(self, mask):
        self.calls.append("end_episode")
        self.ended.scatter_nd_update([[self.step]], mask[None])

    def begin_episode(self, mask):
        self.calls.append("begin_episode")
        self.begun.scatter_nd_update([[self.step]], mask[None])


@contextlib.contextmanager
def in_graph(constructors, backend="inline"):
    if backend == "process":
        batch = make_batch_env(constructors, processes=2)
    elif backend == "inline":
        batch = BatchEnv([constructor() for constructor in constructors], blocking=True)
    else:
        batch = SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)
    envs = InGraphBatchEnv(batch)
    try:
        envs.reset()
        yield envs
    finally:
        envs.close()


def plain_loop(steps, starts, durations, endings):
    """What a memory should hold after `steps` steps."""
    shape = steps, len(starts)
    memory = {name: np.zeros(shape) for name in ("observ", "final_observ", "reward")}
    memory |= {name: np.zeros(shape, bool) for name in ("terminated", "truncated")}
    for env, (start, duration, ending) in enumerate(zip(starts, durations, endings, strict=True)):
        count = start
        for step in range(steps):
            memory["observ"][step, env] = count
            count += 1
            memory["final_observ"][step, env] = count
            memory["reward"][step, env] = count**2
            ended = count - start == duration
            memory["terminated"][step, env] = ended and ending != "truncated"
            memory["truncated"][step, env] = ended and ending != "terminated"
            count = start if ended else count
    return memory


@pytest.mark.parametrize("backend", ["process", "inline", "gymnasium"])
def test_the_memory_holds_what_the_environments_gave(backend):
    steps, starts, durations, endings = 100, [0, 101, 200], [1000, 7, 13], ["both", "truncated", "terminated"]
    constructors = [lambda args=args: Counter(*args) for args in zip(starts, durations, endings, strict=True)]
    with in_graph(constructors, backend) as envs:
        algorithm = Recorder(envs, steps)
        run = tf.function(lambda: simulate(envs, algorithm, steps))
        results = run()
        number = envs.observ["number"].numpy()
    expected = plain_loop(steps, starts, durations, endings)
    memory = algorithm.memory
    for name in ("reward", "terminated", "truncated"):
        np.testing.assert_array_equal(memory[name], expected[name])
    ended = expected["terminated"] | expected["truncated"]
    for name, rows in (("observ", np.ones_like(ended)), ("final_observ", ended)):
        np.testing.assert_array_equal(memory[name]["number"].numpy()[rows], expected[name][rows])
        count = np.repeat(expected[name][..., None], 16, axis=-1)
        np.testing.assert_array_equal(memory[name]["count"].numpy()[rows], count[rows])
    np.testing.assert_array_equal(results.ended, ended)
    np.testing.assert_array_equal(algorithm.begun, ended)
    np.testing.assert_array_equal(algorithm.ended, ended)
    assert number[0] == 100
    assert algorithm.step == steps - 1


def test_the_order_of_calls_in_a_step_and_one_call_whatever_the_number_of_steps():
    with in_graph([Counter]) as envs:
        algorithm = Recorder(envs, 50)
        run = tf.function(lambda: simulate(envs, algorithm, 50))
        run()
        run()
        assert algorithm.calls == ["perform", "experience", "end_episode", "begin_episode"]  # Traced once.


def test_the_next_action_follows_from_the_new_observation():
    def act(observ, deterministic):
        return tf.cast(observ["number"] % 10 == 4, tf.int64)  # Ends an episode in the step after the fourth.

    with in_graph([Counter, lambda: Counter(start=2)]) as envs:
        algorithm = Recorder(envs, 12, act)
        results = tf.function(lambda: simulate(envs, algorithm, 12))()
        observs = algorithm.memory["observ"]["number"].numpy()
        np.testing.assert_array_equal(observs[:, 0], [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1])
        np.testing.assert_array_equal(observs[:, 1], [2, 3, 4] * 4)
        np.testing.assert_array_equal(algorithm.memory["action"], observs == 4)
        np.testing.assert_array_equal(results.ended, observs == 4)
        np.testing.assert_array_equal(results.episode_length.numpy()[results.ended], [3, 5, 3, 3, 5, 3])


@pytest.mark.parametrize("deterministic", [True, False])
def test_hands_on_whether_to_be_deterministic(deterministic):
    flags = []

    def act(observ, deterministic):
        flags.append(deterministic)
        return tf.zeros_like(observ["number"])

    with in_graph([Counter]) as envs:
        algorithm = Recorder(envs, 2, act)
        simulate(envs, algorithm, 2, **({"deterministic": True} if deterministic else {}))
    assert set(flags) == {deterministic}


@pytest.mark.parametrize("ending", ["terminated", "truncated", "both"])
def test_returns_and_lengths_carry_over_from_call_to_call(ending):
    constructors = [lambda d=d: MockEnvironment((2,), (1,), 1, d, ending) for d in (1, 4, 30)]
    with in_graph(constructors, "inline") as envs:
        mock = MockAlgorithm(envs)
        rewards = []

        class Keeping(MockAlgorithm):
            def experience(self, step, transition):
                super().experience(step, transition)
                tf.numpy_function(lambda reward: rewards.append(reward.copy()), [transition.reward], [])

        mock = Keeping(envs)
        run = tf.function(lambda: simulate(envs, mock, 7))
        results = [run() for _ in range(6)]
        ended = np.concatenate([result.ended for result in results])
        returns, lengths, after_return, after_length = numpy_sums(
            np.array(rewards), ended, np.zeros(3), np.zeros(3, int)
        )
        for name, expected in (("episode_return", returns), ("episode_length", lengths)):
            actual = np.concatenate([result[name] for result in results])
            np.testing.assert_allclose(actual[ended], expected[ended], atol=1e-5)
        np.testing.assert_allclose(envs.episode_return, after_return, atol=1e-5)
        np.testing.assert_array_equal(envs.episode_length, after_length)
        durations = [env.steps for env in envs._batch_env]
        for env, steps in enumerate(durations):  # The environments' own record of their episodes.
            np.testing.assert_array_equal(lengths[ended[:, env], env], steps[:-1])
            assert after_length[env] == steps[-1]
        np.testing.assert_array_equal(mock.begun, ended.sum(axis=0))
        np.testing.assert_array_equal(mock.ended, ended.sum(axis=0))
        assert mock.steps == 42


def numpy_sums(reward, ended, returns, lengths):
    returns, lengths = returns.copy(), lengths.copy()
    all_returns, all_lengths = [], []
    for step_reward, step_ended in zip(reward, ended, strict=True):
        returns, lengths = returns + step_reward, lengths + 1
        all_returns.append(returns)
        all_lengths.append(lengths)
        returns, lengths = np.where(step_ended, 0, returns), np.where(step_ended, 0, lengths)
    return np.array(all_returns), np.array(all_lengths), returns, lengths


SHAPES = strategies.sampled_from([(1, 1), (5, 1), (1, 4), (20, 3)])  # Few, as each is compiled anew.


@hypothesis.given(SHAPES, strategies.data())
@hypothesis.settings(deadline=None, max_examples=60)
def test_sums_equal_a_plain_loop(shape, data):
    numbers = strategies.integers(-100, 100)
    reward = data.draw(hypothesis_numpy.arrays(np.float32, shape, elements=numbers))
    ended = data.draw(hypothesis_numpy.arrays(bool, shape))
    returns = data.draw(hypothesis_numpy.arrays(np.float32, shape[1], elements=numbers))
    lengths = data.draw(hypothesis_numpy.arrays(np.int32, shape[1], elements=strategies.integers(0, 100)))
    all_returns, all_lengths, after = _episode_sums(*map(tf.constant, (reward, ended, returns, lengths)))
    for actual, expected in zip(
        (all_returns, all_lengths, *after), numpy_sums(reward, ended, returns, lengths), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)


def test_a_reset_in_between_starts_the_sums_anew():
    with in_graph([Counter, Counter]) as envs:
        algorithm = Recorder(envs, 3)
        simulate(envs, algorithm, 3)
        np.testing.assert_array_equal(envs.episode_return, [14, 14])
        envs.reset(tf.constant([True, False]))
        np.testing.assert_array_equal(envs.episode_return, [0, 14])
        np.testing.assert_array_equal(envs.episode_length, [0, 3])
        simulate(envs, algorithm, 3)
        np.testing.assert_array_equal(envs.episode_length, [3, 6])


@pytest.mark.parametrize("backend", ["process", "inline"])
def test_an_environments_own_exception_comes_out_of_the_loop(backend):
    with in_graph([Counter, lambda: Counter(fails_at=9)], backend) as envs:
        algorithm = Recorder(envs, 20)
        run = tf.function(lambda: simulate(envs, algorithm, 20))
        with pytest.raises(EnvironmentRaisedError, match="ZeroDivisionError: at 9") as caught, envs.raising():
            run()
        assert caught.value.env_index == 1
        np.testing.assert_array_equal(algorithm.memory["observ"]["number"][:8, 0], np.arange(8))
