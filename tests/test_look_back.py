import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.config import load_config
from agents.ppo import PPO
from agents.tools.batch_env import BatchEnv
from agents.tools.in_graph_batch_env import InGraphBatchEnv
from agents.tools.simulation import simulate

STEPS, ENVS = 12, 3
STILL = {"learning_rate": 1e-12, "learning_rate_schedule": "constant"}
PLAIN = {"normalize_observ": False, "normalize_reward": False, "normalize_advantages": False}


class Random(gymnasium.Env):
    """Random observations and rewards, in episodes that end at random; it keeps what happened."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self):
        self.steps = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._observ = self.np_random.normal(size=2).astype(np.float32)
        return self._observ, {}

    def step(self, action):
        before, reward = self._observ, float(self.np_random.normal())
        self._observ = self.np_random.normal(size=2).astype(np.float32)
        terminated, truncated = (bool(flag) for flag in self.np_random.random(2) < [0.15, 0.25])
        self.steps.append((before, float(np.float32(reward)), self._observ, terminated, truncated))
        return self._observ, reward, terminated, truncated, {}


class Agent:
    def __init__(self, envs, **settings):
        sizes = {"num_envs": len(envs), "rollout_length": STEPS, "minibatch_size": STEPS * len(envs), "epochs": 1}
        self.config = load_config("default", **{**sizes, "layers": (4,), "recurrent_units": 5, **settings})
        self.envs = InGraphBatchEnv(BatchEnv(envs, blocking=True))
        self.envs.reset(seed=tf.range(len(envs), dtype=tf.int64))
        self.ppo = PPO(self.envs, self.config)
        self._collect = tf.function(lambda: simulate(self.envs, self.ppo, self.config.rollout_length), autograph=False)

    def iterate(self):
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), dict(self.ppo.train(self._collect())))


@pytest.fixture(scope="module", params=[("gru", False), ("lstm", True)], ids=["gru", "lstm-shared"])
def recurrent(request):
    """An agent with a memory, and what two of its iterations gave."""
    kind, shared = request.param
    envs = [Random() for _ in range(ENVS)]
    settings = {
        "sequence_length": 4,
        "initial_log_std": -8.0,
        "discount": 0.9,
        "gae_lambda": 0.8,
        "minibatch_size": 12,
    }
    agent = Agent(envs, recurrent=kind, shared_torso=shared, **settings, **PLAIN, **STILL)
    for variable in agent.ppo.policy.network.variables().values():
        variable.assign(variable + 0.3)  # What is remembered makes a difference.
    agent.ppo.variables()["network/policy/log_std"].assign([-8.0])
    return agent, envs, [agent.iterate() for _ in range(2)]


def numpy_advantages(agent, steps):
    """Advantages [2 * STEPS] in one environment, from values computed step by step."""
    network, config = agent.ppo.policy.network, agent.config

    def value(observ, states):
        return float(network.value({"vector": tf.constant(observ[None])}, states)[0])

    def after(observ, states):
        inputs, begins = {"vector": tf.constant(observ[None, None])}, tf.constant([[False]])
        return {
            name: tuple(part[0] for part in state) for name, state in network.values(inputs, states, begins)[1].items()
        }

    states, values, next_values = network.zero_states(1), [], []
    for before, _, observ, terminated, truncated in steps:
        values.append(value(before, states))
        states = after(before, states)
        # Where the episode was cut, V(final observation) with what was remembered of that episode.
        next_values.append(0.0 if terminated else value(observ, states))
        if terminated or truncated:
            states = network.zero_states(1)
    advantages = np.zeros(len(steps))
    for start in (0, STEPS):
        later = 0.0
        for index in reversed(range(start, start + STEPS)):
            _, reward, _, terminated, truncated = steps[index]
            delta = reward + config.discount * next_values[index] - values[index]
            later = delta + config.discount * config.gae_lambda * (0 if terminated or truncated else later)
            advantages[index] = later
    return advantages


def in_steps(array):
    """From sequences one after another, as they are learned from, to [STEPS, ENVS]."""
    return array.reshape(STEPS, ENVS)


def test_values_are_bootstrapped_with_what_was_remembered_before_the_reset(recurrent):
    agent, envs, results = recurrent
    for index, env in enumerate(envs):
        expected = numpy_advantages(agent, env.steps)
        advantages = [in_steps(result["arrays"]["rollout/advantage"])[:, index] for result in results]
        np.testing.assert_allclose(np.concatenate(advantages), expected, rtol=1e-4, atol=1e-5)
    ends = [step[3:] for env in envs for step in env.steps]
    assert np.any(ends, axis=0).all()


def test_looking_back_sees_the_policy_that_acted(recurrent):
    _, _, results = recurrent
    for result in results:  # The deviation is so small that actions are what was most likely.
        np.testing.assert_allclose(result["arrays"]["rollout/action"], result["arrays"]["rollout/mode"], atol=2e-3)


def test_sequences_begin_with_what_was_remembered_before_them(recurrent):
    _, _, results = recurrent
    for result in results:  # Before anything is learned the policy is that which acted, and the ratio one.
        assert result["scalars"]["losses/approx_kl"] < 1e-4


def test_normalised_values_are_learned_in_their_own_unit():
    plain, normalised = (
        Agent([Random() for _ in range(ENVS)], normalize_value=normalize, **PLAIN, **STILL)
        for normalize in (False, True)
    )
    first = [agent.iterate() for agent in (plain, normalised)]
    # Without statistics there is nothing to restore: the values are those of the network.
    for name in ("value", "advantage", "return"):
        np.testing.assert_allclose(*(result["arrays"][f"rollout/{name}"] for result in first), rtol=1e-5)
    returns = first[1]["arrays"]["rollout/return"]
    mean, deviation = returns.mean(), returns.std()
    second = [agent.iterate() for agent in (plain, normalised)]
    values = [result["arrays"]["rollout/value"] for result in second]
    np.testing.assert_allclose(values[1], values[0] * deviation + mean, rtol=1e-4, atol=1e-5)
    # The loss is that of returns of mean 0 and standard deviation 1.
    seen = np.concatenate([returns, second[1]["arrays"]["rollout/return"]])
    error = values[0] - (second[1]["arrays"]["rollout/return"] - seen.mean()) / seen.std()
    assert second[1]["scalars"]["losses/value"] == pytest.approx(0.5 * np.mean(error**2), rel=1e-4)


class Cue(gymnasium.Env):
    """Shows one of two signals, then nothing for a step; pays for naming the signal then."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._signal, self._shown = int(self.np_random.integers(2)), True
        return np.array([2.0 * self._signal - 1], np.float32), {}

    def step(self, action):
        if self._shown:
            self._shown = False
            return np.zeros(1, np.float32), 0.0, False, False, {}
        return np.zeros(1, np.float32), float(action == self._signal), True, False, {}


def test_only_a_policy_with_a_memory_learns_what_it_no_longer_sees():
    last = []
    for recurrent in ("gru", "none"):
        settings = {"rollout_length": 16, "minibatch_size": 64, "epochs": 4, "learning_rate": 0.02, "discount": 0.5}
        agent = Agent([Cue() for _ in range(8)], recurrent=recurrent, learning_rate_schedule="constant", **settings)
        rewards = [agent.iterate()["arrays"]["rollout/reward"].mean() * 2 for _ in range(25)]
        last.append(np.mean(rewards[-5:]))
    assert last[0] > 0.9
    assert last[1] < 0.7
