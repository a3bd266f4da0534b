import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError, UsageError
from agents.ppo.ppo import PPO
from agents.sac.sac import SAC
from agents.settings.config_file import load_config
from tests.policies.own_networks import SPACE
from tests.sac.agent import Agent
from tests.toys import FORCE, RandomEnv

TWO_FORCES = spaces.Dict({"left": FORCE, "right": spaces.Box(0, 4, (2, 1), np.float32)})
IMAGE = spaces.Dict(
    {"camera": spaces.Box(0, 255, (16, 16, 3), np.uint8), "speed": spaces.Box(-1, 1, (2,))}
)


class OneRewardEnv(gymnasium.Env):
    """Gives a reward of 1 in each step of episodes of five steps."""

    observation_space, action_space = spaces.Box(-1, 1, (1,)), FORCE

    def __init__(self, ending):
        self._ending, self._steps = ending, 0

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._steps += 1
        ends = self._steps == 5
        # Its last observation is another: the value of the state after it is learned from it alone.
        observ = np.full(1, self._ending == "truncated" and ends, np.float32)
        return (
            observ,
            1.0,
            ends and self._ending == "terminated",
            ends and self._ending == "truncated",
            {},
        )


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize(
    ("ending", "low", "high"), [("truncated", 9.0, 11.0), ("terminated", 2.5, 4.5)]
)
def test_time_limits_do_not_end_returns(ending, low, high, n_step):
    """Without an end the return is 1 / (1 - 0.9) = 10; with one after five steps, 1 to 4.1."""
    agent = Agent(
        [OneRewardEnv(ending)], rollout_length=20, discount=0.9, learning_rate=0.02, batch_size=64,
        gradient_steps=5.0, target_rate=0.2, n_step=n_step, learn_entropy_coef=False,
        initial_entropy_coef=1e-9, layers=(8,),
    )  # fmt: skip
    for _ in range(15):
        _, report = agent.iterate()
    value = float(np.mean(report.arrays["replay/value"]))
    assert low < value < high


CASES = {
    "joint actions": ({}, {"action_space": TWO_FORCES}),
    "images": ({"network": "impala", "layers": (4,)}, {"observation_space": IMAGE}),
    "critic keys": ({"critic_keys": ("speed",)}, {"observation_space": IMAGE}),
    "quantiles": ({"num_quantiles": 5, "dropped_quantiles": 2, "num_critics": 3}, {}),
    "layer norm": ({"layer_norm": "critic", "layers": (4,)}, {}),
    "attention": (
        {"network": "tests.policies.own_networks:attentive"},
        {"observation_space": SPACE},
    ),
    "weights of integers": (
        {"network": "tests.policies.own_networks:adapted", "average_decay": 0.9},
        {"observation_space": SPACE},
    ),
    "averaged": ({"average_decay": 0.9}, {}),
    "normalized": ({"normalize_observ": True}, {}),
    "fixed entropy": ({"learn_entropy_coef": False}, {}),
    "half as many updates": ({"gradient_steps": 0.5}, {}),
    "n steps": ({"n_step": 4}, {}),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "attention" else ()) for name in CASES],
)
def test_iterations_train_every_weight(name):
    settings, spaces_ = CASES[name]
    agent = Agent([RandomEnv(**spaces_) for _ in range(2)], rollout_length=4, **settings)
    trained = {
        **agent.sac.policy.network.trainable_variables(),
        **{f"critics/{key}": one for key, one in agent.sac._critics.trainable_variables().items()},
    }
    before = {key: one.numpy() for key, one in trained.items()}
    everything = agent.sac.variables()
    fixed = {
        key: one.numpy()
        for key, one in everything.items()
        if key.startswith(("network/", "critics/", "targets/"))
        and key.removeprefix("network/") not in trained
        and key.replace("targets/", "critics/") not in trained
    }
    for _ in range(3):
        _, report = agent.iterate()
    unchanged = [key for key, one in trained.items() if np.array_equal(one, before[key])]
    assert not unchanged
    for key, value in fixed.items():
        np.testing.assert_array_equal(everything[key], value, err_msg=key)
    assert all(np.isfinite(float(value)) for value in report.scalars.values())
    assert all(np.isfinite(array).all() for array in report.arrays.values())
    assert int(agent.sac.steps) == 3 * 4 * 2


def test_learning_starts_after_as_many_steps_where_episodes_are_short():
    agent = Agent([RandomEnv(termination=1)], learning_starts=16)
    learned = [float(agent.iterate()[1].scalars["losses/critic_gradient_norm"]) for _ in range(3)]
    assert np.isnan(learned[:2]).all() and learned[2] > 0


def test_weights_from_before_learning_do_not_count_in_the_average():
    agent = Agent([RandomEnv()], learning_starts=20, average_decay=0.99)
    initial = agent.sac.policy.network.variables()["policy/output/kernel"].numpy()
    averages = []
    for _ in range(4):  # 8 steps each: the last two learn.
        agent.iterate()
        policies = agent.sac.averaged_policy, agent.sac.policy
        averages.append(
            [one.network.variables()["policy/output/kernel"].numpy() for one in policies]
        )
    np.testing.assert_array_equal(averages[1], [initial, initial])
    np.testing.assert_array_equal(averages[2][0], averages[2][1])
    mean = (averages[2][1] + averages[3][1]) / 2
    np.testing.assert_allclose(averages[3][0], mean, rtol=1e-6)
    assert not np.array_equal(*averages[3])


def test_first_actions_are_uniform_within_their_bounds():
    agent = Agent([RandomEnv(action_space=TWO_FORCES)], rollout_length=200, learning_starts=200)
    agent.iterate()
    stored = agent.sac.replay.read(np.array([0]), agent.sac.replay.written())
    starts = stored["action"][stored["content"] > 0]
    assert starts.shape == (200, 3)
    assert np.abs(starts).max() < 1
    np.testing.assert_allclose(starts.mean(axis=0), 0, atol=0.15)
    np.testing.assert_allclose(starts.std(axis=0), 3**-0.5, atol=0.08)


def test_a_deterministic_rollout_has_the_modes_also_at_first():
    agent = Agent([RandomEnv(action_space=TWO_FORCES)], rollout_length=4, learning_starts=200)
    batch_env, sac = agent.batch_env, agent.sac
    observ = batch_env.observ
    _, mode, _ = sac.policy.act(tf.nest.map_structure(tf.convert_to_tensor, observ), True)
    sac.begin_rollout(4)
    action = sac.perform(tf.nest.map_structure(tf.convert_to_tensor, observ), True)
    for one, other in zip(tf.nest.flatten(action), tf.nest.flatten(mode), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_steps_whose_observations_exceed_float32_are_not_learned_from():
    class Spike(OneRewardEnv):
        """Observes a number beyond float32 in the third step."""

        observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        total = 0

        def step(self, action):
            self.total += 1
            observ, *rest = super().step(action)
            return np.full(1, 1e300 if self.total == 3 else observ[0]), *rest

    agent = Agent([Spike("terminated")], rollout_length=20, batch_size=64)
    _, report = agent.iterate()
    assert int(report.nonfinite["observ"][1]) == 3  # The update is an error, or skipped.
    assert np.isfinite(report.scalars["losses/critic"])


def test_discrete_and_unbounded_actions_are_refused():
    for space in (spaces.Discrete(2), spaces.Box(-np.inf, np.inf, (2,)), spaces.MultiBinary(3)):
        with pytest.raises(UnsupportedSpaceError, match="bounded Boxes"):
            Agent([RandomEnv(action_space=space)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 3}, "epochs is a setting of ppo, got algorithm sac"),
        ({"policy": "gaussian"}, "policy: sac needs squashed_gaussian, got gaussian"),
        ({"num_quantiles": 5, "dropped_quantiles": 5}, "fewer than num_quantiles 5"),
        ({"replay_capacity": 100}, "at least two rollouts of 64 steps"),
        ({"gradient_steps": 0.005}, "at least one gradient step per rollout of 64 steps"),
        ({"learning_starts": 10**6}, "learning_starts: expected fewer steps"),
        ({"steps": 10_000}, "fewer than the 10,000 steps of the training, got 10,000"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        load_config("sac", **settings)


@pytest.mark.parametrize(
    ("algorithm", "preset", "message"),
    [
        (SAC, "default", "policy: sac needs squashed_gaussian, got gaussian"),
        (PPO, "sac_pendulum", "minibatch_size: 64 does not divide the 16 steps of a rollout"),
    ],
)
def test_a_subclass_refuses_them_as_well(algorithm, preset, message):
    config = load_config(preset, algorithm="my_module:Mine")
    batch_env = Agent([RandomEnv()]).batch_env
    with pytest.raises(UsageError, match=message):
        algorithm(batch_env, config)
    with pytest.raises(UsageError, match=message):
        algorithm.describe(config, batch_env.observation_space, batch_env.action_space)


def test_a_subclass_takes_the_settings_of_the_preset():
    config = load_config("sac_pendulum", algorithm="my_module:MySAC")
    sac = SAC(Agent([RandomEnv()]).batch_env, config)
    optimized = [name for name in sac.variables() if name.startswith("optimizer/actor")]
    assert optimized and not any("value" in name for name in optimized)


def test_ppo_refuses_settings_of_sac():
    with pytest.raises(UsageError, match="batch_size is a setting of sac"):
        load_config("pendulum", batch_size=3)
    assert "batch_size" not in load_config("pendulum").settings()
