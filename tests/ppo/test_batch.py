import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.graph.step import Rollout
from agents.policies.policy import Policy
from agents.ppo.batch import RolloutProcessor
from agents.settings.config_file import load_config
from tests.ppo.agent import FROZEN, UNNORMALIZED, Agent
from tests.toys import FORCE, UNBOUNDED, CountingEnv, CueEnv, RandomEnv

NUM_STEPS, NUM_ENVS = 12, 3
NUMBER, IMAGE = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Box(0, 255, (4, 4), np.uint8)


def count_steps(steps, action):
    return float(steps)


def counting_env(*plan, space=NUMBER):
    """Observes 10 * episode + steps, from 10 on; rewards are 1, 2, 3, ... in every episode."""
    return CountingEnv(plan, space, FORCE, reward=count_steps, start=10, stride=10)


def brightness(inputs, config):
    """A torso: the mean of an image, [N, 1]."""
    image = keras.ops.cast(inputs["image_0"], "float32")
    return keras.layers.GlobalAveragePooling2D()(image)


@pytest.mark.parametrize(
    "space, network",
    [(NUMBER, "feed_forward"), (IMAGE, f"{__name__}:brightness")],
    ids=["vector", "image"],
)
def test_advantages_and_returns_computed_by_hand(space, network):
    envs = [
        counting_env(space=space),
        counting_env((2, "truncated"), space=space),
        counting_env((2, "terminated"), space=space),
        counting_env((2, "both"), space=space),
    ]
    settings = {"discount": 0.5, "gae_lambda": 0.5, "network": network}
    agent = Agent(envs, 3, **settings, **UNNORMALIZED, **FROZEN)
    # The value of a state is its observation.
    agent.ppo.variables()["network/value/output/kernel"].assign([[1.0]])
    first = agent.iterate().arrays
    np.testing.assert_array_equal(
        first["rollout/value"].reshape(3, 4), [[10, 10, 10, 10], [11, 11, 11, 11], [12, 20, 20, 20]]
    )
    # The episode that continues: 1 + 11/2 - 10 = -3.5, 2 + 12/2 - 11 = -3, 3 + 13/2 - 12 = -2.5.
    # The others end with the second step, in the state 12, and continue in the state 20, which is
    # followed by 21. Truncated: 2 + V(12)/2 - 11 = -3, where V(20) of the next episode would give
    # 1 and V(11) of the state before -3.5. Terminated: 2 - 11 = -9. A step earlier, a quarter of
    # that is added to -3.5; the third is 1 + 21/2 - 20 = -8.5.
    advantages = [
        [-3.5 + (-3 - 2.5 / 4) / 4, -3.5 - 3 / 4, -3.5 - 9 / 4, -3.5 - 9 / 4],
        [-3 - 2.5 / 4, -3, -9, -9],
        [-2.5, -8.5, -8.5, -8.5],
    ]
    np.testing.assert_allclose(first["rollout/advantage"].reshape(3, 4), advantages, rtol=1e-6)
    returns = np.array([[10] * 4, [11] * 4, [12, 20, 20, 20]]) + advantages
    np.testing.assert_allclose(first["rollout/return"].reshape(3, 4), returns, rtol=1e-6)
    # The next rollout starts within an episode and ends with the end of one, in the state 32.
    second = agent.iterate().arrays
    np.testing.assert_array_equal(second["rollout/value"].reshape(3, 4)[:, 1], [21, 30, 31])
    truncated, terminated = second["rollout/advantage"].reshape(3, 4)[:, 1:3].T
    last = 2 + 32 / 2 - 31  # V(40), of the observation after the rollout, would give -9.
    np.testing.assert_allclose(
        truncated, [2 + 22 / 2 - 21, 1 + 31 / 2 - 30 + last / 4, last], rtol=1e-6
    )
    last = 2 - 31
    np.testing.assert_allclose(terminated, [2 - 21, 1 + 31 / 2 - 30 + last / 4, last], rtol=1e-6)


def test_images_of_episodes_that_go_on():
    image = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    agent = Agent([counting_env(space=image)], 3, network="nature", **UNNORMALIZED)
    arrays = agent.iterate().arrays
    value, kernel = arrays["rollout/value"], agent.variables()["network/value/output/kernel"]
    assert kernel.any() and np.all(np.isfinite(value)) and value.shape == (3,)
    # Observations are 10, 11 and 12; images are reported of the last step alone.
    image = arrays["rollout/image_0"]
    np.testing.assert_array_equal(image, np.full([1, 36, 36, 1], 12))
    assert not any("vector" in name or "observ" in name for name in arrays)


def numpy_value(weights, history, observ):
    """Values of a network of one hidden layer, of observations normalized by all before them."""
    data = np.array([step.observ for step in history], np.float64)
    normalized = np.clip((observ - data.mean(axis=0)) / data.std(axis=0), -10, 10)
    hidden = np.tanh(normalized @ weights["network/value/hidden_0/kernel"])
    return (hidden @ weights["network/value/output/kernel"])[..., 0]


def numpy_advantages(steps, value, config, return_std):
    """Advantages of one environment's steps of a rollout, by a plain loop."""
    advantages, later = np.zeros(len(steps)), 0.0
    for index in reversed(range(len(steps))):
        step = steps[index]
        reward = np.clip(step.reward / return_std, -10, 10)
        next_value = 0 if step.terminated else value(step.next_observ)
        delta = reward + config.discount * next_value - value(step.observ)
        done = step.terminated or step.truncated
        later = delta + config.discount * config.gae_lambda * (0 if done else later)
        advantages[index] = later
    return advantages


def test_a_rollout_with_normalizers_equals_plain_numpy():
    length, num_envs = 40, 3
    envs = [RandomEnv(mean=[5, -1], std=[3, 0.5]) for _ in range(num_envs)]
    settings = {"discount": 0.9, "gae_lambda": 0.8, "layers": (4,), "initial_log_std": 1.0}
    agent = Agent(envs, length, **settings, **FROZEN)
    weights = {
        name: array for name, array in agent.variables().items() if name.startswith("network/value")
    }
    returns, so_far = [], np.zeros(num_envs)
    for iteration in range(2):
        arrays = agent.iterate(compiles=False).arrays
        first, history = iteration * length, [step for env in envs for step in env.history]
        for step in range(first, first + length):
            so_far = agent.config.discount * so_far + [env.history[step].reward for env in envs]
            returns.append(so_far)
            done = [env.history[step].terminated or env.history[step].truncated for env in envs]
            so_far = np.where(done, 0, so_far)

        def value(observ, history=history):
            return numpy_value(weights, history, observ)

        expected = [
            numpy_advantages(env.history[first:], value, agent.config, np.std(returns))
            for env in envs
        ]
        np.testing.assert_allclose(
            arrays["rollout/advantage"].reshape(length, -1),
            np.transpose(expected),
            rtol=1e-3,
            atol=1e-4,
        )
        observ = np.stack([[step.observ for step in env.history[first:]] for env in envs], axis=1)
        np.testing.assert_array_equal(arrays["rollout/observ"].reshape(observ.shape), observ)
        np.testing.assert_allclose(
            arrays["rollout/value"].reshape(length, -1), value(observ), rtol=1e-3, atol=1e-4
        )
    assert {(step.terminated, step.truncated) for step in history} > {(True, False), (False, True)}
    # The statistics that a checkpoint holds.
    data = np.array([step.observ for step in history], np.float64)
    variables = agent.variables()
    counts = [variables[f"normalize_{name}/count"] for name in ("observ", "reward")]
    assert counts == [len(data)] * 2 == [240, 240]
    np.testing.assert_allclose(variables["normalize_observ/mean"], data.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(
        variables["normalize_observ/squares"] / len(data), data.var(axis=0), rtol=1e-9
    )
    np.testing.assert_allclose(variables["normalize_reward/sums"], so_far, rtol=1e-4, atol=1e-4)
    # The policy learns from its samples, which are not clipped.
    action, mode, std = (arrays[f"rollout/{name}"] for name in ("action", "mode", "std"))
    assert np.abs(action).max() > 1
    np.testing.assert_allclose(std, np.e, rtol=1e-5)
    log_prob = -(((action - mode) / std) ** 2) / 2 - np.log(std) - np.log(2 * np.pi) / 2
    np.testing.assert_allclose(arrays["rollout/log_prob"], log_prob[:, 0], rtol=1e-5)


# Recurrent networks.


def stepwise_advantages(agent, history):
    """Advantages [2 * T] in one environment, from values computed step by step."""
    network, config = agent.ppo.policy.network, agent.config

    def value(observ, states):
        return float(network.value({"vector": tf.constant(observ[None])}, states)[0])

    def after(observ, states):
        inputs, is_first = {"vector": tf.constant(observ[None, None])}, tf.constant([[False]])
        return {
            name: tuple(part[0] for part in state)
            for name, state in network.values(inputs, states, is_first)[1].items()
        }

    states, values, next_values = network.zero_states(1), [], []
    for step in history:
        values.append(value(step.observ, states))
        states = after(step.observ, states)
        # The final observation is evaluated with the recurrent state of the episode it ends.
        next_values.append(0.0 if step.terminated else value(step.next_observ, states))
        if step.terminated or step.truncated:
            states = network.zero_states(1)
    advantages = np.zeros(len(history))
    for start in (0, NUM_STEPS):
        later = 0.0
        for index in reversed(range(start, start + NUM_STEPS)):
            step = history[index]
            delta = step.reward + config.discount * next_values[index] - values[index]
            done = step.terminated or step.truncated
            later = delta + config.discount * config.gae_lambda * (0 if done else later)
            advantages[index] = later
    return advantages


@pytest.mark.parametrize("kind, shared", [("gru", False), ("lstm", True)])
def test_recurrent_states_are_those_of_acting_in_every_pass(kind, shared):
    envs = [RandomEnv(termination=0.15, truncation=0.25) for _ in range(NUM_ENVS)]
    settings = {
        "layers": (4,),
        "recurrent_units": 5,
        "sequence_length": 4,
        "discount": 0.9,
        "gae_lambda": 0.8,
        "minibatch_size": 12,
        "recurrent": kind,
        "shared_torso": shared,
    }
    agent = Agent(envs, NUM_STEPS, **settings, **UNNORMALIZED, **FROZEN)
    for variable in agent.ppo.policy.network.variables().values():
        variable.assign(variable + 0.3)  # The recurrent state makes a difference.
    agent.ppo.variables()["network/policy/log_std"].assign([-8.0])
    reports = [agent.iterate() for _ in range(2)]
    for report in reports:
        # The evaluated policy is the one that acted: the deviation is so small that samples are modes.
        action, mode = (report.arrays[f"rollout/{name}"] for name in ("action", "mode"))
        np.testing.assert_allclose(action, mode, atol=2e-3)
        # Sequences start with the state before them: without learning, the policy is the same.
        assert report.scalars["losses/approx_kl"] < 1e-4
    for index, env in enumerate(envs):
        expected = stepwise_advantages(agent, env.history)
        advantages = [
            report.arrays["rollout/advantage"].reshape(NUM_STEPS, NUM_ENVS)[:, index]
            for report in reports
        ]
        np.testing.assert_allclose(np.concatenate(advantages), expected, rtol=1e-4, atol=1e-5)
    ends = [(step.terminated, step.truncated) for env in envs for step in env.history]
    assert np.any(ends, axis=0).all()


def test_a_recurrent_policy_learns_to_recall_a_cue():
    settings = {
        "layers": (4,),
        "recurrent": "gru",
        "recurrent_units": 5,
        "minibatch_size": 64,
        "epochs": 4,
        "learning_rate": 0.02,
        "learning_rate_schedule": "constant",
        "discount": 0.5,
    }
    agent = Agent([CueEnv() for _ in range(8)], 16, **settings)
    rewards = [agent.iterate().arrays["rollout/reward"].mean() * 2 for _ in range(25)]
    assert np.mean(rewards[-5:]) > 0.9  # Without memory it is 0.5.


# Normalized values.


def test_normalized_values_are_learned_in_units_of_their_deviation():
    settings = {"layers": (4,), "normalize_value": True, **UNNORMALIZED, **FROZEN}
    agent = Agent([RandomEnv() for _ in range(NUM_ENVS)], NUM_STEPS, **settings)
    returns = []
    for _ in range(2):
        report = agent.iterate(compiles=False)
        inputs = {"vector": tf.constant(report.arrays["rollout/observ"])}
        outputs = agent.ppo.policy.network.value(inputs, {}).numpy()
        # Without statistics, values are the outputs of the network.
        mean, std = (np.mean(returns), np.std(returns)) if returns else (0, 1)
        np.testing.assert_allclose(
            report.arrays["rollout/value"], outputs * std + mean, rtol=1e-4, atol=1e-5
        )
        returns.append(report.arrays["rollout/return"])
    # The loss is that of returns of mean 0 and standard deviation 1.
    error = outputs - (returns[1] - np.mean(returns)) / np.std(returns)
    assert report.scalars["losses/value"] == pytest.approx(0.5 * np.mean(error**2), rel=1e-4)


# The batch.


def make_processor(kind):
    """A processor, its policy, and a random rollout of 6 steps of 2 environments."""
    sizes = {"num_envs": 2, "rollout_length": 6, "minibatch_size": 6, "layers": (4,)}
    settings = {"recurrent": kind, "recurrent_units": 5, "sequence_length": 3}
    config = load_config("default", **sizes, **({} if kind == "none" else settings))
    policy = Policy(UNBOUNDED, FORCE, config)
    random = np.random.default_rng(0)
    observ, final_observ = tf.constant(random.normal(size=[2, 6, 2, 2]).astype(np.float32))
    reward = tf.constant(random.normal(size=[6, 2]).astype(np.float32))
    done = np.zeros([6, 2], bool)
    done[1, 0] = done[4, 1] = True
    rollout = Rollout(
        observ=observ,
        reward=reward,
        terminated=tf.constant(done),
        truncated=tf.zeros_like(done),
        done=tf.constant(done),
        final_observ=final_observ,
        extras={},
        episode_return=reward,
        episode_length=tf.ones(done.shape, tf.int32),
    )
    sample = tf.constant(random.normal(size=[6, 2, 1]).astype(np.float32))
    experience = rollout, observ[0], sample, policy.zero_states(2)
    return RolloutProcessor(policy, 2, config), policy, experience


@pytest.mark.parametrize("kind", ["none", "gru"])
def test_batches_have_the_documented_shapes(kind):
    processor, _, experience = make_processor(kind)
    rollout, _, sample, _ = experience
    batch, arrays, _ = processor.process(*experience)
    shape = [12] if kind == "none" else [4, 3]
    for name in ("advantage", "old_log_prob", "target", "value"):
        assert getattr(batch, name).shape == shape
    assert batch.inputs["vector"].shape == [*shape, 2]
    assert batch.sample.shape == [*shape, 1]
    assert [parameter.shape for parameter in batch.old_parameters] == [[*shape, 1]] * 2
    assert batch.valid == batch.start_log_prob == ()
    if kind == "none":
        assert batch.is_first == () and batch.states == {}
        np.testing.assert_array_equal(batch.sample, tf.reshape(sample, [12, 1]))
    else:
        first = np.zeros([6, 2], bool)
        first[2, 0] = first[5, 1] = True  # A rollout starts with known states.
        expected = [first[start : start + 3, env] for start in (0, 3) for env in (0, 1)]
        np.testing.assert_array_equal(batch.is_first, expected)
        assert {name: state[0].shape for name, state in batch.states.items()} == {
            "policy": [4, 5], "value": [4, 5]
        }  # fmt: skip
        np.testing.assert_array_equal(batch.states["policy"][0][:2], np.zeros([2, 5]))
        np.testing.assert_array_equal(batch.sample[1], sample[:3, 1])
    # Tags of histograms and their numbers.
    assert arrays["rollout/reward"].shape == [12]
    mean = np.mean(rollout.observ, axis=(0, 1))
    np.testing.assert_allclose(arrays["statistics/observ_mean"], mean, rtol=1e-4, atol=1e-6)
    # A reset clears running sums and recurrent states.
    episode_state = ("normalize_reward/sums", "value_states/0")
    before = {name: variable.numpy() for name, variable in processor.variables().items()}
    processor.reset_episode_state()
    for name, variable in processor.variables().items():
        assert name not in episode_state or before[name].any()
        cleared = np.zeros_like(before[name]) if name in episode_state else before[name]
        np.testing.assert_array_equal(variable, cleared)


@pytest.mark.parametrize("kind", ["none", "gru"])
def test_targets_are_estimated_again_with_the_value_function_as_it_is(kind):
    processor, policy, experience = make_processor(kind)
    batch, _, estimate = processor.process(*experience)
    after = {name: variable.numpy() for name, variable in processor.variables().items()}
    again = estimate()
    for name in ("advantage", "target", "value"):
        np.testing.assert_allclose(again[name], getattr(batch, name), atol=1e-6)
    # Values of all states rise by 1.
    policy.network.variables()["value/output/bias"].assign([1.0])
    raised = estimate()
    np.testing.assert_allclose(raised["value"], batch.value + 1, atol=1e-5)
    np.testing.assert_allclose(raised["target"] - raised["advantage"], raised["value"], atol=1e-5)
    assert np.abs(raised["advantage"] - batch.advantage).min() > 1e-3
    # Neither statistics nor recurrent states are those of a second rollout.
    np.testing.assert_equal(
        {name: variable.numpy() for name, variable in processor.variables().items()}, after
    )
