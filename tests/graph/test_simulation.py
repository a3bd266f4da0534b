import functools

import numpy as np
import pytest
import tensorflow as tf

from agents.environments.mock_environment import MockEnvironment
from agents.errors import UsageError
from agents.graph.algorithm import Actor
from agents.graph.mock_algorithm import MockAlgorithm
from agents.graph.simulation import complete_episodes, simulate
from agents.graph.step import Rollout, Step
from tests.graph.all_backends import BACKENDS, in_graph
from tests.toys import CountingEnv, read_counts, squared_steps

Counter = functools.partial(CountingEnv, reward=squared_steps, stop_action=1)


def wait(observ, deterministic):
    return tf.zeros_like(observ["number"])


class Recorder(Actor):
    """Acts by a rule and stores transitions in variables [T, B, ...]; records the calls."""

    def __init__(self, batch_env, steps, act=wait):
        self.act, self.calls = act, []
        make = lambda leaf: tf.Variable(tf.zeros([steps, *leaf.shape], leaf.dtype))  # noqa: E731
        results = batch_env._results()
        fields = results._replace(observ=batch_env.observ, action=batch_env.action)
        self.memory = tf.nest.map_structure(make, fields)
        self.begun = tf.Variable(tf.zeros([steps, batch_env.num_envs], tf.bool))
        self.ended = tf.Variable(tf.zeros([steps, batch_env.num_envs], tf.bool))
        self.step = tf.Variable(0)

    def begin_rollout(self, steps):
        self.calls.append(("begin_rollout", steps))

    def perform(self, observ, deterministic):
        self.calls.append(("perform", deterministic))
        return self.act(observ, deterministic)

    def experience(self, step, transition):
        self.calls.append("experience")
        assert isinstance(transition, Step)
        self.step.assign(step)
        tf.nest.map_structure(
            lambda variable, value: variable.scatter_nd_update([[step]], value[None]),
            self.memory,
            transition,
        )

    def end_episode(self, mask):
        self.calls.append("end_episode")
        self.ended.scatter_nd_update([[self.step]], mask[None])

    def begin_episode(self, mask):
        self.calls.append("begin_episode")
        self.begun.scatter_nd_update([[self.step]], mask[None])


def loop_transitions(steps, starts, plans):
    """Transitions [T, B] by a plain loop; counts stand for observations."""
    shape = steps, len(starts)
    memory = {name: np.zeros(shape) for name in ("observ", "final_observ", "reward")}
    memory |= {name: np.zeros(shape, bool) for name in ("terminated", "truncated")}
    for env, (start, (duration, ending)) in enumerate(zip(starts, plans, strict=True)):
        count = start
        for step in range(steps):
            memory["observ"][step, env] = count
            count += 1
            memory["final_observ"][step, env] = count
            memory["reward"][step, env] = (count - start) ** 2
            done = count - start == duration
            memory["terminated"][step, env] = done and ending != "truncated"
            memory["truncated"][step, env] = done and ending != "terminated"
            count = start if done else count
    return memory


@pytest.mark.parametrize("backend", BACKENDS)
def test_transitions_and_rollouts_equal_a_plain_loop(backend):
    steps, starts = 100, [0, 101, 200]
    plans = [(1000, "both"), (7, "truncated"), (13, "terminated")]
    constructors = [
        functools.partial(Counter, [plan], start=start)
        for start, plan in zip(starts, plans, strict=True)
    ]
    with in_graph(constructors, backend) as envs:
        envs.reset()
        actor = Recorder(envs, steps)
        rollout = tf.function(lambda: simulate(envs, actor, steps))()
        last = read_counts(envs.observ)
    expected = loop_transitions(steps, starts, plans)
    done = expected["terminated"] | expected["truncated"]
    everywhere = np.ones_like(done)
    for recorded in (actor.memory, rollout):
        for name in ("reward", "terminated", "truncated"):
            np.testing.assert_array_equal(getattr(recorded, name), expected[name])
        for name, rows in (("observ", everywhere), ("final_observ", done)):
            counts = read_counts(getattr(recorded, name))
            np.testing.assert_array_equal(counts[rows], expected[name][rows])
    np.testing.assert_array_equal(actor.memory.action, 0)
    np.testing.assert_array_equal(rollout.done, done)
    np.testing.assert_array_equal(actor.begun, done)
    np.testing.assert_array_equal(actor.ended, done)
    assert last[0] == 100
    assert actor.step == steps - 1


def test_calls_have_an_order_and_are_traced_once():
    with in_graph([Counter]) as envs:
        envs.reset()
        for deterministic in (False, True):
            kwargs = {"deterministic": True} if deterministic else {}
            actor = Recorder(envs, 50)
            run = tf.function(
                lambda actor=actor, kwargs=kwargs: simulate(envs, actor, 50, **kwargs)
            )
            run()
            run()
            assert actor.calls == [
                ("begin_rollout", 50),
                ("perform", deterministic),
                "experience",
                "end_episode",
                "begin_episode",
            ]


def test_actions_are_chosen_for_the_newest_observations():
    def act(observ, deterministic):
        return tf.cast(observ["number"] % 10 == 4, tf.int64)  # Ends the episode after a 4.

    with in_graph([Counter, functools.partial(Counter, start=2)]) as envs:
        envs.reset()
        actor = Recorder(envs, 12, act)
        rollout = tf.function(lambda: simulate(envs, actor, 12))()
        counts = read_counts(actor.memory.observ)
        np.testing.assert_array_equal(counts[:, 0], [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1])
        np.testing.assert_array_equal(counts[:, 1], [2, 3, 4] * 4)
        np.testing.assert_array_equal(actor.memory.action, counts == 4)
        np.testing.assert_array_equal(rollout.done, counts == 4)
        np.testing.assert_array_equal(
            rollout.episode_length.numpy()[rollout.done], [3, 5, 3, 3, 5, 3]
        )
        np.testing.assert_array_equal(envs.action, [0, 1])


# Returns and lengths of episodes.


@pytest.mark.parametrize(
    ("act", "got"),
    [
        (lambda observ: tf.zeros([2, 1], tf.int64), "int64(2, 1)"),
        (lambda observ: tf.zeros([2]), "float32(2,)"),
        (lambda observ: {"a": tf.zeros([2], tf.int64)}, "{'a': 'int64(2,)'}"),
    ],
)
def test_other_actions_than_those_of_the_space_are_named(act, got):
    with in_graph([Counter] * 2) as envs:
        actor = Recorder(envs, 4, lambda observ, deterministic: act(observ))
        envs.reset()
        with pytest.raises(UsageError) as caught:
            tf.function(lambda: simulate(envs, actor, 4), autograph=False)()
        assert f"Recorder.perform: expected actions int64(2,), got {got}" in str(caught.value)
        for simulate_once in (envs.simulate, tf.function(envs.simulate)):
            with pytest.raises(UsageError, match="simulate: expected actions .*, got") as caught:
                simulate_once(act(None))
            assert str(caught.value).endswith(got)
        np.testing.assert_array_equal(envs.reward, [0, 0])  # No environment was stepped.


def test_actions_may_have_unknown_dimensions():
    """As those of a Keras model, or of a SavedModel, for batches of any size."""
    signature = [tf.TensorSpec([None], tf.int64)]
    act = tf.function(tf.zeros_like, input_signature=signature)
    with in_graph([Counter] * 2) as envs:
        observ = envs.reset()
        step = tf.function(envs.simulate, input_signature=signature)
        assert step(act(observ["number"])).reward.shape == [2]
        actor = Recorder(envs, 4, lambda observ, deterministic: act(observ["number"]))
        rollout = tf.function(lambda: simulate(envs, actor, 4), autograph=False)()
        assert rollout.reward.shape == [4, 2]


class RewardRecorder(MockAlgorithm):
    """Acts at random and appends the rewards [B] of every step to a list."""

    def __init__(self, batch_env):
        super().__init__(batch_env)
        self.rewards = []

    def experience(self, step, transition):
        super().experience(step, transition)
        tf.numpy_function(
            lambda reward: self.rewards.append(reward.copy()), [transition.reward], []
        )


def test_returns_and_lengths_continue_from_rollout_to_rollout():
    plans = ((1, "both"), (4, "terminated"), (30, "truncated"))
    constructors = [lambda plan=plan: MockEnvironment((2,), (1,), 1, *plan) for plan in plans]
    with in_graph(constructors) as envs:
        envs.reset()
        actor = RewardRecorder(envs)
        run = tf.function(lambda: simulate(envs, actor, 7))
        rollouts = [run() for _ in range(6)]
        done = np.concatenate([rollout.done for rollout in rollouts])
        returns, lengths, next_return, next_length = loop_sums(
            np.array(actor.rewards), done, np.zeros(3), np.zeros(3, int)
        )
        for name, expected in (("episode_return", returns), ("episode_length", lengths)):
            actual = np.concatenate([getattr(rollout, name) for rollout in rollouts])
            np.testing.assert_allclose(actual[done], expected[done], atol=1e-5)
        np.testing.assert_allclose(envs.episode_return, next_return, atol=1e-5)
        np.testing.assert_array_equal(envs.episode_length, next_length)
        for row, env in enumerate(envs._batch_env):  # They count the steps of their episodes.
            np.testing.assert_array_equal(lengths[done[:, row], row], env.steps[:-1])
            assert next_length[row] == env.steps[-1]
        np.testing.assert_array_equal(actor.episodes_begun, done.sum(axis=0))
        np.testing.assert_array_equal(actor.episodes_ended, done.sum(axis=0))
        assert actor.steps == 42


def test_a_reset_between_rollouts_restarts_the_sums():
    with in_graph([Counter, Counter]) as envs:
        envs.reset()
        actor = Recorder(envs, 3)
        simulate(envs, actor, 3)
        np.testing.assert_array_equal(envs.episode_return, [14, 14])
        envs.reset(tf.constant([True, False]))
        np.testing.assert_array_equal(envs.episode_return, [0, 14])
        np.testing.assert_array_equal(envs.episode_length, [0, 3])
        simulate(envs, actor, 3)
        np.testing.assert_array_equal(envs.episode_length, [3, 6])


def test_an_episode_that_a_restart_ended_is_not_complete():
    done = tf.constant([[True, True, False], [False, True, True]])
    restarted = tf.constant([[False, True, False], [False, False, True]])
    rollout = Rollout(*[tf.zeros([2, 3])] * 4, done, *[tf.zeros([2, 3])] * 4, restarted)
    np.testing.assert_array_equal(complete_episodes(rollout), [[1, 0, 0], [0, 1, 0]])
    never_restarted = rollout._replace(restarted=())
    np.testing.assert_array_equal(complete_episodes(never_restarted), done)


class Waiting(Actor):
    """Overrides no method that it need not override."""

    def perform(self, observ, deterministic):
        return wait(observ, deterministic)


def test_autograph_converts_no_actor(caplog):
    with in_graph([Counter, Counter]) as envs:
        envs.reset()
        tf.get_logger().addHandler(caplog.handler)
        try:
            rollout = tf.function(lambda: simulate(envs, Waiting(), 3), autograph=True)()
        finally:
            tf.get_logger().removeHandler(caplog.handler)
    assert not caplog.records  # "AutoGraph could not transform ...".
    np.testing.assert_array_equal(rollout.reward[:, 0], [1, 4, 9])


def loop_sums(reward, done, returns, lengths):
    returns, lengths = returns.copy(), lengths.copy()
    all_returns, all_lengths = [], []
    for step_reward, step_done in zip(reward, done, strict=True):
        returns, lengths = returns + step_reward, lengths + 1
        all_returns.append(returns)
        all_lengths.append(lengths)
        returns, lengths = np.where(step_done, 0, returns), np.where(step_done, 0, lengths)
    return np.array(all_returns), np.array(all_lengths), returns, lengths
