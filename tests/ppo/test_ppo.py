import re

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.graph.algorithm import Algorithm, Report
from agents.ppo.loss import Loss
from agents.ppo.ppo import PPO
from agents.sac.sac import SAC
from agents.settings.config_file import load_config
from tests.ppo.agent import Agent
from tests.ppo.numpy_update import NumpyUpdate
from tests.ppo.reachable import reachable_variables
from tests.toys import MIXED_ACTIONS, MIXED_OBSERVATIONS, BanditEnv, RandomEnv


def random_envs(num_envs, **kwargs):
    return [RandomEnv(mean=[5, -1], std=[3, 0.5], **kwargs) for _ in range(num_envs)]


def mixed_envs(num_envs):
    never = {"termination": 0, "truncation": 0}
    return [RandomEnv(MIXED_OBSERVATIONS, MIXED_ACTIONS, **never) for _ in range(num_envs)]


# Updates.


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
    metrics = agent.iterate(compiles=False).scalars
    assert metrics["losses/policy"] == pytest.approx(0.7)
    changed = {name for name, value in agent.variables().items() if (value != before[name]).any()}
    assert "network/value/output/kernel" in changed
    assert not any(name.startswith("network/policy") for name in changed)


def test_iterations_equal_plain_numpy():
    settings = {
        "steps": 50,
        "learning_rate": 0.01,
        "max_gradient_norm": 0.05,
        "value_coef": 0.7,
        "entropy_coef": 0.01,
        "value_clip": 0.2,
        "initial_log_std": -0.5,
    }
    agent = Agent(random_envs(2), 10, **settings)
    network = agent.ppo.policy.network.variables()
    for variable in network.values():  # Nothing is zero, so that every term counts.
        variable.assign(variable + 0.1)

    def weights():
        """The weights by the names of `NumpyUpdate`."""
        named = {name.replace("output/", ""): array.numpy() for name, array in network.items()}
        return {**named, "value/kernel": named["value/kernel"][:, 0]}

    reference = NumpyUpdate(agent.config, weights(), {})
    for iteration in range(4):
        # 0, 20, 40 and 60 of 50 steps were learned from before.
        progress = min(20 * iteration / 50, 1)
        report = agent.iterate()
        arrays = {
            name.removeprefix("rollout/"): np.float64(array)
            for name, array in report.arrays.items()
            if name.startswith("rollout/")
        }
        reference.batch = {
            "inputs": arrays["normalized_observ"],
            "sample": arrays["action"],
            "old_log_prob": arrays["log_prob"],
            "old_parameters": (arrays["mode"], np.log(arrays["std"])),
            "value": arrays["value"],
            "advantage": arrays["advantage"],
            "target": arrays["return"],
        }
        gradients = reference.gradient(np.arange(20), progress)
        expected = reference.run(np.arange(20)[None, None], progress)
        for name in ("policy", "value", "entropy", "gradient_norm"):
            number = report.scalars[f"losses/{name}"]
            np.testing.assert_allclose(number, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)
        assert expected["gradient_norm"] > settings["max_gradient_norm"]
        rate = report.scalars["schedule/learning_rate"]
        np.testing.assert_allclose(rate, 0.01 * (1 - progress), atol=1e-7)
        for name, array in weights().items():
            np.testing.assert_allclose(array, reference.weights[name], atol=1e-5, err_msg=name)
        for name in ("policy/kernel", "policy/bias", "value/bias"):
            reported = report.arrays[f"weight_gradients/{name.replace('/', '/output/')}"]
            np.testing.assert_allclose(reported, gradients[name], rtol=1e-3, atol=1e-4)
    assert int(agent.ppo.steps) == 80


def test_the_kl_limits_grow_with_the_root_of_the_dimensions_of_actions():
    reports = []
    for limit, multiply in [(0.01, True), (0.02, False)]:
        envs = random_envs(2, action_space=spaces.Box(-9, 9, (4,)))
        limits = {"kl_stop": limit, "multiply_kl_stop": multiply, "kl_stop_after": "epoch"}
        limits |= {"kl_target": limit, "multiply_kl_target": multiply}
        rate = {"learning_rate": 0.003, "learning_rate_schedule": "kl"}
        agent = Agent(envs, 10, epochs=50, **limits, **rate)
        reports.append(agent.iterate(compiles=False).scalars)
    assert 1 < reports[0]["losses/epochs"] < 50
    assert reports[0]["schedule/learning_rate"] != np.float32(0.003)
    assert reports[0] == reports[1]


def test_new_statistics_of_the_normalizer_are_no_change_of_the_policy():
    envs = [RandomEnv(mean=[500, -100], std=[3, 0.5]) for _ in range(2)]
    settings = {"layers": (4,), "epochs": 3, "minibatch_size": 5}
    rate = {"learning_rate": 1e-6, "learning_rate_schedule": "kl", "kl_target": 0.01}
    agent = Agent(envs, 10, kl_stop=0.01, kl_stop_after="epoch", **settings, **rate)
    kernel = agent.ppo.policy.network.variables()["policy/output/kernel"]
    kernel.assign(tf.ones_like(kernel))
    before = agent.ppo.policy.act(tf.constant([[500.0, -100.0]]), deterministic=True)[0]
    scalars = agent.iterate(compiles=False).scalars
    change = agent.ppo.policy.act(tf.constant([[500.0, -100.0]]), deterministic=True)[0] - before
    assert np.abs(change).max() > 0.5  # In units of the standard deviation, 1.
    assert scalars["losses/epochs"] == 3
    assert scalars["losses/approx_kl"] < 1e-5  # Of the weights; the normalizer's share is 0.1.
    assert scalars["schedule/learning_rate"] > 1e-6


# One agent.


@pytest.fixture(scope="module")
def agent():
    return Agent(random_envs(3, termination=0, truncation=0), 4, objective="clip_kl")


def test_acting_changes_random_numbers_alone(agent):
    observ = tf.random.stateless_normal([500, 2], [0, 1])
    for deterministic, expected in ((True, set()), (False, {"algorithm/generator"})):
        before = agent.variables()
        sample, action, _ = agent.ppo.policy.act(observ, deterministic)
        np.testing.assert_array_equal(action, np.clip(sample, -1, 1))
        after = agent.variables()
        assert {name for name in after if (after[name] != before[name]).any()} == expected


@pytest.mark.parametrize("algorithm", [PPO, SAC])
def test_the_call_of_other_libraries_is_answered(algorithm, agent):
    env = gymnasium.make("Pendulum-v1")
    for arguments in [("MlpPolicy", env), (env, load_config("pendulum")), (agent.batch_env, {})]:
        with pytest.raises(
            TypeError,
            match=f"{algorithm.__name__} expected environments in the graph.*and a Config",
        ):
            algorithm(*arguments)
    with pytest.raises(
        TypeError, match="has no argument 'n_steps'; settings are .* rollout_length=..."
    ):
        algorithm(agent.batch_env, agent.config, n_steps=2048)


def test_a_rollout_of_another_length_raises(agent):
    with pytest.raises(ValueError, match=r"expected rollouts of 4 steps \(rollout_length\), got 5"):
        agent.ppo.begin_rollout(5)


def test_training_is_one_xla_program(agent):
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


def test_reports_have_the_documented_form(agent):
    assert isinstance(agent.ppo, Algorithm)
    report = agent.iterate()
    assert isinstance(report, Report)
    tags = {"losses/policy", "losses/explained_variance", "schedule/kl_penalty"}
    assert tags < set(report.scalars)
    assert all(np.shape(number) == () for number in report.scalars.values())
    assert report.arrays["rollout/reward"].shape == (12,)
    assert report.arrays["weights/value/output/kernel"].shape == (2, 1)
    monitored = {"observ", "final_observ", "reward", "action", "loss", "gradient"}
    assert set(report.nonfinite) == monitored
    assert {int(index) for _, index in report.nonfinite.values()} == {-1}
    # Environments of Python are refused before; those of TensorFlow are not.
    rollout = agent.collect()
    observ = tf.tensor_scatter_nd_update(rollout.observ, [[3, 0, 1]], [-np.inf])
    reward = tf.tensor_scatter_nd_update(rollout.reward, [[1, 1]], [np.inf])
    nonfinite = agent.ppo.train(rollout._replace(observ=observ, reward=reward)).nonfinite
    assert nonfinite["reward"] == (np.inf, 1 * 3 + 1)  # In the second step.
    assert nonfinite["observ"] == (-np.inf, 3 * 3 + 0)
    assert nonfinite["loss"][1] == nonfinite["gradient"][1] == 0


# Acting and learning.


def test_exploration_noise_is_standard_normal_and_correlated():
    actions = spaces.Box(-1, 1, (500,), np.float32)
    envs = [RandomEnv(action_space=actions) for _ in range(2)]
    arrays = Agent(envs, 4, noise_correlation=0.9).iterate(compiles=False).arrays
    action, mode, std = (arrays[f"rollout/{name}"] for name in ("action", "mode", "std"))
    noise = ((action - mode) / std).reshape(4, 1000)  # [T, B * A]
    np.testing.assert_allclose(noise.std(axis=1), 1, atol=0.1)  # Four standard errors.
    between = [np.corrcoef(noise[step], noise[step + 1])[0, 1] for step in range(3)]
    np.testing.assert_allclose(between, 0.9, atol=0.13)


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


MEMORY = {"recurrent": "gru", "recurrent_units": 8, "sequence_length": 4}


@pytest.mark.parametrize(
    "others",
    [{}, {**MEMORY, "critic_keys": ["hidden"]}],
    ids=["", "memory and keys of the critic"],
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
    report = agent.iterate(compiles="network" in settings)  # In a plain graph.
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
