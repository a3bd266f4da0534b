"""Learning from rollouts with steps that have no outcome, because an environment was restarted."""

import numpy as np
import pytest
import tensorflow as tf

from agents.graph.step import Rollout
from agents.policies.policy import Policy
from agents.policies.sequences import flatten_time
from agents.ppo.batch import RolloutProcessor
from agents.ppo.loss import Loss
from agents.settings.config_file import load_config
from tests.toys import FORCE, UNBOUNDED

T, B = 12, 3
SETTINGS = {"num_envs": B, "rollout_length": T, "minibatch_size": T * B, "layers": (4,)}


def make_experience(policy, seed=0):
    """Arguments of `process`; environment 0 is restarted in single steps, environment 1 in two in a row."""
    random = np.random.default_rng(seed)
    observ = random.normal(size=[T + 1, B, 2]).astype(np.float32)
    final_observ = random.normal(size=[T, B, 2]).astype(np.float32)
    restarted, terminated, truncated = (np.zeros([T, B], bool) for _ in range(3))
    restarted[[0, 4], 0] = restarted[[6, 7, T - 1], 1] = True
    terminated[3, 2], truncated[8, 2], terminated[2, 0] = True, True, True
    truncated |= restarted
    reward = random.normal(size=[T, B]).astype(np.float32)
    reward[restarted] = 0
    final_observ[restarted] = observ[:-1][restarted]
    done = terminated | truncated
    rollout = Rollout(
        observ=tf.constant(observ[:-1]),
        reward=tf.constant(reward),
        terminated=tf.constant(terminated),
        truncated=tf.constant(truncated),
        done=tf.constant(done),
        final_observ=tf.constant(final_observ),
        extras={},
        episode_return=tf.constant(reward),
        episode_length=tf.ones(done.shape, tf.int32),
        restarted=tf.constant(restarted),
    )
    sample = tf.constant(random.normal(size=[T, B, 1]).astype(np.float32))
    return rollout, tf.constant(observ[-1]), sample, policy.zero_states(B)


def numpy_advantages(rollout, value, final_value, last_value, reward, config):
    """Advantages [T, B]: each stretch between restarts is an episode that was cut."""
    advantages = np.zeros([T, B])
    next_value = np.concatenate([value[1:], last_value[None]])
    for env in range(B):
        later = 0.0
        for step in reversed(range(T)):
            if rollout.restarted[step, env]:
                later = 0.0
                continue
            following = next_value[step, env]
            if rollout.truncated[step, env]:
                following = final_value[step, env]
            if rollout.terminated[step, env]:
                following = 0.0
            if rollout.done[step, env]:
                later = 0.0
            delta = reward[step, env] + config.discount * following - value[step, env]
            later = delta + config.discount * config.gae_lambda * later
            advantages[step, env] = later
    return advantages


def numpy_sums(rollout, discount):
    """The discounted sums of rewards [N] of the steps that have an outcome."""
    sums = []
    for env in range(B):
        so_far = 0.0
        for step in range(T):
            so_far = discount * so_far + rollout.reward[step, env]
            if not rollout.restarted[step, env]:
                sums.append(so_far)
            if rollout.done[step, env]:
                so_far = 0.0
    return np.array(sums)


@pytest.mark.parametrize("recurrent", ["none", "gru"])
def test_steps_without_an_outcome_are_left_out(recurrent):
    settings = {"recurrent": recurrent, "recurrent_units": 3, "sequence_length": 4}
    settings = {} if recurrent == "none" else settings
    config = load_config("default", **SETTINGS, **settings, normalize_value=True)
    policy = Policy(UNBOUNDED, FORCE, config)
    processor = RolloutProcessor(policy, B, config)
    rollout, last_observ, sample, states = make_experience(policy)
    batch, arrays, _ = processor.process(rollout, last_observ, sample, states)
    rollout = tf.nest.map_structure(lambda leaf: leaf.numpy(), rollout)
    valid = ~rollout.restarted
    sums = numpy_sums(rollout, config.discount)
    variables = {name: variable.numpy() for name, variable in processor.variables().items()}
    assert variables["normalize_reward/count"] == len(sums) == T * B - 5
    np.testing.assert_allclose(variables["normalize_reward/squares"] / len(sums), sums.var(), 1e-5)
    reward = np.clip(rollout.reward / sums.std(), -10, 10)
    value = arrays["rollout/value"].numpy().reshape(T, B)
    if recurrent == "none":
        network = policy.network
        final_inputs = flatten_time(policy.preprocess(tf.constant(rollout.final_observ)))
        final_value = network.value(final_inputs, {}).numpy().reshape(T, B)
        last_value = network.value(policy.preprocess(last_observ), {}).numpy()
        expected = numpy_advantages(rollout, value, final_value, last_value, reward, config)
        got = arrays["rollout/advantage"].numpy().reshape(T, B)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
        target = (expected + value)[valid]
        assert variables["normalize_value/count"] == target.size
        np.testing.assert_allclose(variables["normalize_value/mean"], [target.mean()], rtol=1e-4)
    flags = batch.valid.numpy()
    assert flags.shape == ((T * B,) if recurrent == "none" else (T // 4 * B, 4))
    assert (flags == 0).sum() == 5
    assert not batch.advantage.numpy()[~flags].any()


@pytest.mark.parametrize("value_clip", [0.0, 0.1])
def test_the_loss_does_not_depend_on_what_has_no_outcome(value_clip):
    config = load_config("default", **SETTINGS, value_clip=value_clip)
    policy = Policy(UNBOUNDED, FORCE, config)
    loss = Loss(policy.network, config)
    batch, _, _ = RolloutProcessor(policy, B, config).process(*make_experience(policy))
    progress = tf.constant(0.0)

    def gradients(batch):
        size = batch.value.shape[0]
        advantage = loss.advantages(batch, tf.range(size)[None])[0]
        with tf.GradientTape() as tape:
            total, _ = loss.compute(batch._replace(advantage=advantage), progress)
        return total, tape.gradient(total, policy.network.variables())

    invalid = ~batch.valid
    changed = batch._replace(
        advantage=tf.where(invalid, 1e3, batch.advantage),
        target=tf.where(invalid, -1e3, batch.target),
    )
    for one, other in zip(
        tf.nest.flatten(gradients(batch)), tf.nest.flatten(gradients(changed)), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    without = changed._replace(valid=())
    assert not np.allclose(gradients(without)[0], gradients(batch)[0])
