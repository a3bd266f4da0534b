import re

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError
from agents.graph.algorithm import Algorithm, Report
from agents.ppo.loss import Loss
from agents.ppo.ppo import PPO
from tests.ppo.agent import Agent
from tests.ppo.numpy_update import numeric_gradient
from tests.ppo.reachable import reachable_variables
from tests.toys import MIXED_ACTIONS, MIXED_OBSERVATIONS, BanditEnv, RandomEnv


def random_envs(num_envs, **kwargs):
    return [RandomEnv(mean=[5, -1], std=[3, 0.5], **kwargs) for _ in range(num_envs)]


def mixed_envs(num_envs):
    never = {"termination": 0, "truncation": 0}
    return [RandomEnv(MIXED_OBSERVATIONS, MIXED_ACTIONS, **never) for _ in range(num_envs)]


# Updates.


def numpy_loss(parameters, arrays, config):
    """The loss of one minibatch, in double precision, of two linear networks and a Gaussian."""
    observ = arrays["rollout/normalized_observ"].astype(np.float64)

    def output(name):
        kernel, bias = (parameters[f"network/{name}/output/{kind}"] for kind in ("kernel", "bias"))
        return observ @ kernel + bias

    log_std = parameters["network/policy/log_std"]
    standard = (arrays["rollout/action"] - output("policy")) / np.exp(log_std)
    log_prob = -np.sum(standard**2 / 2 + log_std + np.log(2 * np.pi) / 2, axis=1)
    advantage = arrays["rollout/advantage"].astype(np.float64)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = np.exp(log_prob - arrays["rollout/log_prob"])
    clipped = np.clip(ratio, 1 - config.clip_ratio, 1 + config.clip_ratio)
    policy_loss = -np.mean(np.minimum(ratio * advantage, clipped * advantage))
    value, old_value = output("value")[:, 0], arrays["rollout/value"]
    target = arrays["rollout/return"]
    near = old_value + np.clip(value - old_value, -config.value_clip, config.value_clip)
    value_loss = np.mean(np.maximum((value - target) ** 2, (near - target) ** 2)) / 2
    entropy = np.sum(log_std + np.log(2 * np.pi * np.e) / 2)
    total = policy_loss + config.value_coef * value_loss - config.entropy_coef * entropy
    return total, {"policy": policy_loss, "value": value_loss, "entropy": entropy}


class ZeroLoss(Loss):
    """A loss whose policy term is 0."""

    def policy_loss(self, log_prob, old_log_prob, advantage, clip_ratio):
        assert log_prob.shape == old_log_prob.shape == advantage.shape
        return 0.0 * tf.reduce_mean(log_prob) + 7.0 * clip_ratio


class ValuesOnly(PPO):
    loss_class = ZeroLoss


def test_subclasses_may_have_another_objective():
    agent = Agent(random_envs(1), 10, clip_ratio=0.1, learning_rate=0.1)
    agent.ppo = ValuesOnly(agent.batch_env, agent.config)
    before = agent.variables()
    metrics = agent.iterate().scalars
    assert metrics["losses/policy"] == pytest.approx(0.7)
    changed = {name for name, value in agent.variables().items() if (value != before[name]).any()}
    assert "network/value/output/kernel" in changed
    assert not any(name.startswith("network/policy") for name in changed)


def test_a_whole_update_equals_plain_numpy():
    rate, epsilon, limit = 0.01, 1e-5, 0.05
    agent = Agent(
        random_envs(2),
        10,
        learning_rate=rate,
        learning_rate_schedule="constant",
        adam_epsilon=epsilon,
        max_gradient_norm=limit,
        value_coef=0.7,
        entropy_coef=0.01,
        value_clip=0.2,
        initial_log_std=-0.5,
    )
    names = [name for name in agent.variables() if name.startswith("network/")]
    for name in names:  # Nothing is zero, so that every term counts.
        variable = agent.ppo.variables()[name]
        variable.assign(variable + 0.1)
    first, second = ({name: 0.0 for name in names} for _ in range(2))
    for iteration in (1, 2):
        before = {name: agent.variables()[name].astype(np.float64) for name in names}
        report = agent.iterate()

        def loss(parameters, arrays=report.arrays):
            return numpy_loss(parameters, arrays, agent.config)

        gradient = numeric_gradient(lambda *args: loss(*args)[0], before, 1e-5)  # noqa: B023
        norm = np.sqrt(sum(np.sum(one**2) for one in gradient.values()))
        assert norm > limit
        np.testing.assert_allclose(report.scalars["losses/gradient_norm"], norm, rtol=1e-4)
        for name, number in loss(before)[1].items():
            np.testing.assert_allclose(
                report.scalars[f"losses/{name}"], number, rtol=1e-4, atol=1e-5
            )
        for name in names:
            reported = report.arrays[f"weight_gradients/{name.removeprefix('network/')}"]
            np.testing.assert_allclose(reported, gradient[name], rtol=1e-3, atol=1e-4)
            clipped = gradient[name] * limit / norm
            first[name] = 0.9 * first[name] + 0.1 * clipped
            second[name] = 0.999 * second[name] + 0.001 * clipped**2
            size = rate * np.sqrt(1 - 0.999**iteration) / (1 - 0.9**iteration)
            after = before[name] - size * first[name] / (np.sqrt(second[name]) + epsilon)
            np.testing.assert_allclose(agent.variables()[name], after, atol=1e-5)


def test_the_learning_rate_decreases_from_iteration_to_iteration():
    agent = Agent(random_envs(2), 10, steps=50, learning_rate=0.1)
    rates = [float(agent.iterate().scalars["schedule/learning_rate"]) for _ in range(4)]
    # 0, 20, 40 and 60 of 50 steps have been learned from before each of them.
    np.testing.assert_allclose(rates, [0.1, 0.06, 0.02, 0.0], atol=1e-7)
    assert int(agent.ppo.steps) == 80
    before, _ = agent.variables(), agent.iterate()
    for name, array in agent.variables().items():
        if name.startswith("network/"):
            np.testing.assert_array_equal(array, before[name])


def test_the_kl_stop_grows_with_the_root_of_the_dimensions_of_actions():
    epochs = {}
    for kl_stop, multiply in [(0.01, True), (0.02, False), (0.01, False)]:
        envs = random_envs(2, action_space=spaces.Box(-9, 9, (4,)))
        settings = {"kl_stop": kl_stop, "multiply_kl_stop": multiply, "kl_stop_after": "epoch"}
        agent = Agent(envs, 10, epochs=50, learning_rate=0.003, **settings)
        epochs[kl_stop, multiply] = float(agent.iterate().scalars["losses/epochs"])
    assert 1 < epochs[0.01, False] < epochs[0.01, True] == epochs[0.02, False] < 50


def test_the_kl_target_grows_with_the_root_of_the_dimensions_of_actions():
    rates = {}
    for kl_target, multiply in [(0.01, True), (0.02, False), (0.01, False)]:
        envs = random_envs(2, action_space=spaces.Box(-9, 9, (4,)))
        settings = {"kl_target": kl_target, "multiply_kl_target": multiply}
        agent = Agent(envs, 10, epochs=10, learning_rate_schedule="kl", **settings)
        agent.iterate()
        rates[kl_target, multiply] = float(agent.iterate().scalars["schedule/learning_rate"])
    assert rates[0.01, False] < rates[0.01, True] == rates[0.02, False]


@pytest.mark.parametrize(("recurrent", "after"), [("none", "minibatch"), ("gru", "epoch")])
def test_new_statistics_of_the_normalizer_are_no_change_of_the_policy(recurrent, after):
    envs = [RandomEnv(mean=[500, -100], std=[3, 0.5]) for _ in range(2)]
    settings = {"layers": (4,), "epochs": 3, "minibatch_size": 5, "recurrent": recurrent}
    rate = {"learning_rate": 1e-6, "learning_rate_schedule": "kl", "kl_target": 0.01}
    agent = Agent(envs, 10, kl_stop=0.01, kl_stop_after=after, **settings, **rate)
    kernel = agent.ppo.policy.network.variables()["policy/output/kernel"]
    kernel.assign(tf.ones_like(kernel))
    before = agent.ppo.policy.act(tf.constant([[500.0, -100.0]]), deterministic=True)[0]
    scalars = agent.iterate().scalars
    change = agent.ppo.policy.act(tf.constant([[500.0, -100.0]]), deterministic=True)[0] - before
    assert np.abs(change).max() > 0.5  # In units of the standard deviation, 1.
    assert scalars["losses/epochs"] == 3
    assert scalars["losses/approx_kl"] < 1e-5  # Of the weights; the normalizer's share is 0.1.
    assert scalars["schedule/learning_rate"] > 1e-6


def test_training_is_one_xla_program():
    agent = Agent(random_envs(1), 4, epochs=2, minibatch_size=2)

    @tf.function(autograph=False)
    def iteration():
        return agent.ppo.train(agent.collect())

    graph = iteration.get_concrete_function().graph.as_graph_def()
    functions = {one.signature.name: one for one in graph.library.function}
    called = [
        functions[node.attr["f"].func.name]
        for node in graph.node
        if "train" in node.attr["f"].func.name
    ]
    assert len(called) == 1
    assert called[0].attr["_XlaMustCompile"].b
    # All that learns is inside.
    assert "MatMul" in {node.op for node in called[0].node_def}
    assert "MatMul" not in {node.op for node in graph.node}
    compiler_ir = agent.ppo._train_graph.experimental_get_compiler_ir(agent.collect())
    assert "HloModule" in compiler_ir(stage="hlo")


def test_reports_have_the_documented_form():
    agent = Agent(random_envs(2), 4, objective="clip_kl")
    assert isinstance(agent.ppo, Algorithm)
    report = agent.iterate()
    assert isinstance(report, Report)
    assert {"losses/policy", "losses/explained_variance", "schedule/kl_penalty"} < set(
        report.scalars
    )
    assert all(np.shape(number) == () for number in report.scalars.values())
    assert report.arrays["rollout/reward"].shape == (8,)
    assert report.arrays["weights/value/output/kernel"].shape == (2, 1)
    assert set(report.nonfinite) == {
        "observ",
        "final_observ",
        "reward",
        "action",
        "loss",
        "gradient",
    }
    assert {int(index) for _, index in report.nonfinite.values()} == {-1}


def test_numbers_that_are_not_finite_are_reported():
    """Environments of Python are refused before; those of TensorFlow are not."""
    agent = Agent(random_envs(3, termination=0, truncation=0), 4, normalize_observ=False)
    rollout = agent.collect()
    observ = tf.tensor_scatter_nd_update(rollout.observ, [[3, 0, 1]], [-np.inf])
    reward = tf.tensor_scatter_nd_update(rollout.reward, [[1, 1]], [np.inf])
    nonfinite = agent.ppo.train(rollout._replace(observ=observ, reward=reward)).nonfinite
    assert nonfinite["reward"] == (np.inf, 1 * 3 + 1)  # In the second step.
    assert nonfinite["observ"] == (-np.inf, 3 * 3 + 0)
    assert nonfinite["loss"][1] == nonfinite["gradient"][1] == 0


# Acting.


@pytest.mark.parametrize("deterministic", [True, False])
def test_actions_are_modes_or_clipped_samples(deterministic):
    agent = Agent(random_envs(1), 4, initial_log_std=1.0)
    before = agent.variables()
    observ = tf.random.stateless_normal([500, 2], [0, 1])
    sample, action, _ = agent.ppo.policy.act(observ, deterministic)
    np.testing.assert_array_equal(action, np.clip(sample, -1, 1))
    changed = {name for name, array in agent.variables().items() if (array != before[name]).any()}
    if deterministic:
        assert changed == set()
        kernel, bias = (before[f"network/policy/output/{name}"] for name in ("kernel", "bias"))
        np.testing.assert_allclose(
            sample, np.clip(observ, -10, 10) @ kernel + bias, rtol=1e-5, atol=1e-7
        )
    else:
        assert changed == {"algorithm/generator"}
        assert np.abs(sample).max() > 1  # The policy learns from samples, which are not clipped.
        assert np.std(sample) == pytest.approx(np.e, rel=0.2)


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.98])
def test_exploration_noise_is_standard_normal_from_the_first_step_on(correlation):
    actions = spaces.Box(-1, 1, (500,), np.float32)
    envs = [RandomEnv(action_space=actions) for _ in range(2)]
    arrays = Agent(envs, 4, noise_correlation=correlation).iterate().arrays
    action, mode, std = (arrays[f"rollout/{name}"] for name in ("action", "mode", "std"))
    noise = ((action - mode) / std).reshape(4, 1000)  # [T, B * A]
    np.testing.assert_allclose(noise.std(axis=1), 1, atol=0.1)  # Four standard errors.
    between = [np.corrcoef(noise[step], noise[step + 1])[0, 1] for step in range(3)]
    np.testing.assert_allclose(between, correlation, atol=0.13)


def test_a_rollout_of_another_length_raises():
    agent = Agent(random_envs(1), 4)
    with pytest.raises(ValueError, match="expected rollouts of 4 steps, got 5"):
        agent.ppo.begin_rollout(5)


def test_recurrent_states_are_reset_at_the_start_of_episodes():
    agent = Agent(random_envs(3), 4, recurrent="gru", recurrent_units=5, sequence_length=2)
    (states,) = agent.ppo._states["policy"]
    states.assign(tf.ones_like(states))
    agent.ppo.begin_episode(tf.constant([True, False, True]))
    np.testing.assert_array_equal(states, [[0] * 5, [1] * 5, [0] * 5])


def test_an_action_space_without_a_policy_raises():
    with pytest.raises(UnsupportedSpaceError, match="int32"):
        Agent([RandomEnv(action_space=spaces.Box(0, 5, (2,), np.int32))], 4)


# Learning.


def test_a_policy_learns_which_action_pays():
    settings = {"epochs": 4, "minibatch_size": 16, "learning_rate": 0.05, "discount": 0.0}
    agent = Agent([BanditEnv(start=5) for _ in range(4)], 16, **settings)
    for _ in range(30):
        agent.iterate()
    _, action, _ = agent.ppo.policy.act(tf.constant([0, 1], tf.int64), deterministic=True)
    np.testing.assert_array_equal(action, [6, 7])


class Telling(gymnasium.ObservationWrapper):
    """Adds the context to the observations, as what only the value function may see."""

    def __init__(self, env):
        super().__init__(env)
        hidden = spaces.Box(0, 1, (1,), np.float64)
        self.observation_space = spaces.Dict(hidden=hidden, **env.observation_space.spaces)

    def observation(self, observation):
        return {"hidden": np.array([observation["observ"]], np.float64), **observation}


GRU = {"recurrent": "gru", "recurrent_units": 8, "sequence_length": 4}


@pytest.mark.parametrize(
    "others",
    [{}, GRU, {**GRU, "critic_keys": ["hidden"]}],
    ids=["", "memory", "memory and keys of the critic"],
)
def test_a_policy_learns_the_best_valid_action(others):
    settings = {"epochs": 4, "minibatch_size": 16, "learning_rate": 0.05, "discount": 0.0}
    envs = [BanditEnv(num_actions=4, masked=True) for _ in range(4)]  # They refuse invalid actions.
    if "critic_keys" in others:
        envs = list(map(Telling, envs))
    agent = Agent(envs, 16, action_mask=True, **settings, **others)
    for _ in range(15):
        agent.iterate()
    observ = {
        "observ": tf.constant([0, 1], tf.int64),
        "action_mask": tf.constant([[1, 1, 0, 0], [1, 1, 1, 0]], tf.int8),
    }
    _, action, _ = agent.ppo.policy.act(observ, deterministic=True)
    np.testing.assert_array_equal(action, [1, 2])


MIXED_SETTINGS = {
    "images": {
        "network": "nature",
        "shared_torso": True,
        "precision": "bfloat16",
        "policy": "beta",
        "objective": "clip_kl",
    },
    "recurrent": {
        "recurrent": "lstm",
        "policy": "squashed_gaussian",
        "state_dependent_std": True,
        "normalize_value": True,
    },
    "images, memory, keys of the critic": {
        "network": "nature",
        "recurrent": "gru",
        "critic_keys": ["count", "speed"],
        "recompute_advantages": True,
        "epochs": 2,
    },
}


@pytest.mark.parametrize("settings", MIXED_SETTINGS.values(), ids=MIXED_SETTINGS)
def test_learns_from_observations_and_actions_of_all_kinds(settings):
    agent = Agent(mixed_envs(2), 4, layers=(8,), minibatch_size=4, **settings)
    before = agent.variables()
    report = agent.iterate()
    assert all(int(index) == -1 for _, index in report.nonfinite.values())
    assert all(np.isfinite(scalar) for scalar in report.scalars.values())
    after = agent.variables()
    unchanged = [
        name
        for name in after
        if name.startswith("network/") and np.array_equal(before[name], after[name])
    ]
    assert unchanged == []
    actions = [name for name in report.arrays if name.startswith("rollout/action")]
    assert len(actions) == 4


# Checkpoints.


def test_names_in_checkpoints_are_unique_and_independent_of_the_process():
    agents = [Agent(random_envs(1), 4, layers=(3,)) for _ in range(2)]
    names = [set(agent.ppo.variables()) for agent in agents]
    assert names[0] == names[1]  # Keras has numbered the first agent's layers.
    weights = {name.removeprefix("network/") for name in names[0] if name.startswith("network/")}
    assert weights == {
        *(f"{net}/{layer}/{kind}" for net in ("policy", "value") for layer in ("hidden_0", "output")
          for kind in ("kernel", "bias")),
        "policy/log_std",
    }  # fmt: skip
    slots = [
        name
        for name in names[0]
        if name.startswith("optimizer/") and name.endswith(("momentum", "velocity"))
    ]
    assert len(slots) == 2 * len(weights)
    assert {
        "algorithm/steps",
        "algorithm/generator",
        "normalize_reward/sums",
        "normalize_observ/mean",
    } < names[0]


CHECKPOINTED = {
    "feed-forward": {},
    "gru": {
        "layers": (4,),
        "recurrent": "gru",
        "recurrent_units": 3,
        "sequence_length": 2,
        "noise_correlation": 0.5,
        "learning_rate_schedule": "kl",
        "critic_learning_rate": 0.01,
        "objective": "clip_kl",
        "kl_stop": 0.1,
        "kl_stop_after": "epoch",
        "normalize_value": True,
    },
    "lstm, shared": {
        "recurrent": "lstm",
        "recurrent_units": 3,
        "shared_torso": True,
        "optimizer": "sgd",
        "state_dependent_std": True,
        "kl_stop": 0.1,
        "normalize_observ": False,
        "normalize_reward": False,
    },
    "images": MIXED_SETTINGS["images"],
    "averaged, recomputed": {"average_decay": 0.9, "recompute_advantages": True, "epochs": 2},
}

# Paths of variables that checkpoints need not hold, and why. They match nothing else.
ROLLOUT = "of one rollout: assigned before it, or by it, and used up by the update"
BETWEEN_UPDATES = "a mean over an epoch, empty between updates"
DROPOUT = "random numbers of the dropout of Keras' cells, which is not used"
DISABLED = "not used with these settings"
NOT_CHECKPOINTED = {
    r"ppo\._(step|noise|samples.*|start_states.*)": ROLLOUT,
    r".*\._epoch_kl\._(sum|count)": BETWEEN_UPDATES,
    r".*\.seed_generators?.*|.*\['seed_generators'\].*": DROPOUT,
    r".*_normalizer\._(moments\.\w+|shift|scale|sums)": DISABLED,
    r"ppo\._correlated_noise\._last": DISABLED,
}


@pytest.mark.parametrize("settings", CHECKPOINTED.values(), ids=CHECKPOINTED)
def test_checkpoints_hold_every_variable(settings):
    envs = mixed_envs(2) if "network" in settings else random_envs(2)
    agent = Agent(envs, 4, **settings)
    found = reachable_variables(agent.ppo, "ppo")
    paths = {id(variable): path for path, variable in found.items()}
    held = {id(variable) for variable in agent.ppo.variables().values()}
    assert held <= set(paths)  # Otherwise the search would miss others, too.
    of_environments = {id(one) for one in reachable_variables(agent.batch_env).values()}
    for path in (paths[key] for key in set(paths) - held - of_environments):
        reasons = [why for one, why in NOT_CHECKPOINTED.items() if re.fullmatch(one, path)]
        assert reasons, f"{path} is not in variables()"
        assert reasons != [DISABLED] or path.startswith(disabled_parts(agent.config)), path


def disabled_parts(config):
    """Paths of the parts of PPO that settings disable."""
    enabled = {
        "ppo.policy.observ_normalizer": config.normalize_observ,
        "ppo.policy.critic_normalizer": config.critic_keys,
        "ppo.averaged_policy.critic_normalizer": config.critic_keys,
        "ppo._average.policy.critic_normalizer": config.critic_keys,
        "ppo._processor._reward_normalizer": config.normalize_reward,
        "ppo._processor._value_normalizer": config.normalize_value,
        "ppo._correlated_noise": config.noise_correlation,
    }
    return tuple(path for path, is_enabled in enabled.items() if not is_enabled)
