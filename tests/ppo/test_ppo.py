import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.graph.simulation import simulate
from agents.ppo import PPO
from agents.settings.config_file import load_config
from agents.vector.batch_env import BatchEnv

PLAIN = {"normalize_observ": False, "normalize_reward": False, "normalize_advantages": False}
STILL = {"learning_rate": 1e-12, "learning_rate_schedule": "constant"}


class Counting(gymnasium.Env):
    """Observes 10 * (number of the episode) + (steps in it); the rewards of an episode are 1, 2, 3,
    ..."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, duration, terminates, truncates):
        self._duration, self._flags = duration, (terminates, truncates)
        self._episode, self._steps = 0, 0

    def reset(self, *, seed=None, options=None):
        self._episode, self._steps = self._episode + 1, 0
        return self._observ(), {}

    def step(self, action):
        self._steps += 1
        ends = self._steps == self._duration
        return (
            self._observ(),
            float(self._steps),
            ends and self._flags[0],
            ends and self._flags[1],
            {},
        )

    def _observ(self):
        return np.array([10 * self._episode + self._steps], np.float32)


class Walk(gymnasium.Env):
    """A random walk that is pushed by the actions, with episodes that end at random; it keeps what
    happened."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self.np_random.normal([5, -1], [3, 0.5])
        self.steps = getattr(self, "steps", [])
        return self._place.astype(np.float32), {}

    def step(self, action):
        before = self._place.astype(np.float32)
        self._place = self._place + self.np_random.normal([0.2, 0], [2, 0.1]) + action[0]
        reward = float(self.np_random.normal(self._place[0], 2))
        terminated, truncated = self.np_random.random(2) < [0.1, 0.2]
        after = self._place.astype(np.float32)
        self.steps.append((before, np.float32(reward), after, bool(terminated), bool(truncated)))
        return after, reward, bool(terminated), bool(truncated), {}


class Agent:
    """PPO in environments of this process, as a `Learner` ties them together."""

    def __init__(self, envs, rollout_length, seed=0, **overrides):
        settings = {
            "num_envs": len(envs),
            "rollout_length": rollout_length,
            "epochs": 1,
            "layers": (),
            "seed": seed,
        }
        settings["minibatch_size"] = len(envs) * rollout_length
        self.config = load_config("default", **{**settings, **overrides})
        self.batch_env = InGraphBatchEnv(BatchEnv(envs, blocking=True))
        self.batch_env.reset(seed=tf.range(len(envs), dtype=tf.int64) + seed)
        self.ppo = PPO(self.batch_env, self.config)
        self.collect = tf.function(
            lambda: simulate(self.batch_env, self.ppo, self.config.rollout_length), autograph=False
        )

    def iterate(self):
        """Scalars and arrays of one iteration, in numpy."""
        return tf.nest.map_structure(
            lambda tensor: tensor.numpy(), dict(self.ppo.train(self.collect()))
        )

    def variables(self):
        return {name: variable.numpy() for name, variable in self.ppo.variables().items()}


def test_advantages_and_returns_computed_by_hand():
    endings = {
        "goes on": (9, False, False),
        "cut": (2, False, True),
        "final": (2, True, False),
        "both": (2, True, True),
    }
    agent = Agent(
        [Counting(*ending) for ending in endings.values()],
        3,
        discount=0.5,
        gae_lambda=0.5,
        **PLAIN,
        **STILL,
    )
    agent.ppo.variables()["network/value/output/kernel"].assign(
        [[1.0]]
    )  # The value of a state is what is observed.
    first = agent.iterate()["arrays"]
    np.testing.assert_array_equal(
        first["rollout/value"].reshape(3, 4), [[10, 10, 10, 10], [11, 11, 11, 11], [12, 20, 20, 20]]
    )
    # The episode that goes on: 1 + 11/2 - 10 = -3.5, 2 + 12/2 - 11 = -3, 3 + 13/2 - 12 = -2.5.
    # The others end in the second step, in the state 12, and go on in the state 20, which is
    # followed by 21. Cut: 2 + V(12)/2 - 11 = -3, where V(20) of the next episode would give 1 and
    # V(11) of the state before -3.5. Final: 2 - 11 = -9. A step earlier, a quarter of that is added
    # to -3.5; the third is 1 + 21/2 - 20 = -8.5.
    advantages = [
        [-3.5 + (-3 - 2.5 / 4) / 4, -3.5 - 3 / 4, -3.5 - 9 / 4, -3.5 - 9 / 4],
        [-3 - 2.5 / 4, -3, -9, -9],
        [-2.5, -8.5, -8.5, -8.5],
    ]
    np.testing.assert_allclose(first["rollout/advantage"].reshape(3, 4), advantages, rtol=1e-6)
    returns = np.array([[10] * 4, [11] * 4, [12, 20, 20, 20]]) + advantages
    np.testing.assert_allclose(first["rollout/return"].reshape(3, 4), returns, rtol=1e-6)
    # The next rollout begins in the middle of an episode and ends with the end of one, in the state
    # 32.
    second = agent.iterate()["arrays"]
    np.testing.assert_array_equal(second["rollout/value"].reshape(3, 4)[:, 1], [21, 30, 31])
    cut, final = second["rollout/advantage"].reshape(3, 4)[:, 1:3].T
    last = 2 + 32 / 2 - 31  # V(40), of the observation that the rollout ends with, would give -9.
    np.testing.assert_allclose(cut, [2 + 22 / 2 - 21, 1 + 31 / 2 - 30 + last / 4, last], rtol=1e-6)
    last = 2 - 31
    np.testing.assert_allclose(final, [2 - 21, 1 + 31 / 2 - 30 + last / 4, last], rtol=1e-6)


def test_a_rollout_in_a_random_environment_with_normalisers_equals_plain_numpy():
    steps, num_envs, discount, gae_lambda = 40, 3, 0.9, 0.8
    envs = [Walk() for _ in range(num_envs)]
    agent = Agent(
        envs,
        steps,
        discount=discount,
        gae_lambda=gae_lambda,
        layers=(4,),
        initial_log_std=1.0,
        **STILL,
    )
    weights = {
        name: array for name, array in agent.variables().items() if name.startswith("network/value")
    }

    def value(observ):
        seen = np.array([step[0] for env in envs for step in env.steps], np.float64)
        normal = np.clip((observ - seen.mean(axis=0)) / seen.std(axis=0), -10, 10)
        hidden = np.tanh(normal @ weights["network/value/hidden_0/kernel"])
        return (hidden @ weights["network/value/output/kernel"])[..., 0]

    returns, so_far = [], np.zeros(num_envs)
    for iteration in range(2):
        arrays = agent.iterate()["arrays"]
        advantages = np.zeros([steps, num_envs])
        for step in range(iteration * steps, (iteration + 1) * steps):
            so_far = discount * so_far + [env.steps[step][1] for env in envs]
            returns.append(so_far)
            so_far = np.where([env.steps[step][3] or env.steps[step][4] for env in envs], 0, so_far)
        for index, env in enumerate(envs):
            later = 0.0
            for step in reversed(range(steps)):
                before, reward, after, terminated, truncated = env.steps[iteration * steps + step]
                reward = np.clip(reward / np.std(returns), -10, 10)
                delta = reward + discount * (0 if terminated else value(after)) - value(before)
                later = delta + discount * gae_lambda * (0 if terminated or truncated else later)
                advantages[step, index] = later
        np.testing.assert_allclose(
            arrays["rollout/advantage"].reshape(steps, -1), advantages, rtol=1e-3, atol=1e-4
        )
        observ = np.array(
            [[env.steps[iteration * steps + step][0] for env in envs] for step in range(steps)]
        )
        np.testing.assert_array_equal(arrays["rollout/observ"].reshape(observ.shape), observ)
        np.testing.assert_allclose(
            arrays["rollout/value"].reshape(steps, -1), value(observ), rtol=1e-3, atol=1e-4
        )
    flags = np.array([[step[3:] for step in env.steps] for env in envs])
    assert flags.any(axis=(0, 1)).all()
    # The statistics that a checkpoint holds.
    seen = np.array([step[0] for env in envs for step in env.steps], np.float64)
    variables = agent.variables()
    assert (
        variables["normalize_observ/count"]
        == variables["normalize_reward/count"]
        == len(seen)
        == 240
    )
    np.testing.assert_allclose(variables["normalize_observ/mean"], seen.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(
        variables["normalize_observ/squares"] / len(seen), seen.var(axis=0), rtol=1e-9
    )
    np.testing.assert_allclose(variables["normalize_reward/sums"], so_far, rtol=1e-4, atol=1e-4)
    # The policy learns from what it chose, not from what was left of it.
    action, mode, std = (arrays[f"rollout/{name}"] for name in ("action", "mode", "std"))
    assert np.abs(action).max() > 1
    np.testing.assert_allclose(std, np.e, rtol=1e-5)
    log_prob = -(((action - mode) / std) ** 2) / 2 - np.log(std) - np.log(2 * np.pi) / 2
    np.testing.assert_allclose(arrays["rollout/log_prob"], log_prob[:, 0], rtol=1e-5)


def numpy_loss(parameters, arrays, config):
    """The loss of one minibatch, in double precision, of two linear networks and a normal
    distribution."""
    observ = arrays["rollout/normalized_observ"].astype(np.float64)
    mean = (
        observ @ parameters["network/policy/output/kernel"]
        + parameters["network/policy/output/bias"]
    )
    log_std = parameters["network/policy/log_std"]
    standard = (arrays["rollout/action"] - mean) / np.exp(log_std)
    log_prob = -np.sum(standard**2 / 2 + log_std + np.log(2 * np.pi) / 2, axis=1)
    value = (
        observ @ parameters["network/value/output/kernel"] + parameters["network/value/output/bias"]
    )[:, 0]
    advantage = arrays["rollout/advantage"].astype(np.float64)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = np.exp(log_prob - arrays["rollout/log_prob"])
    clipped = np.clip(ratio, 1 - config.clip_ratio, 1 + config.clip_ratio)
    policy_loss = -np.mean(np.minimum(ratio * advantage, clipped * advantage))
    old_value, target = arrays["rollout/value"], arrays["rollout/return"]
    near = old_value + np.clip(value - old_value, -config.value_clip, config.value_clip)
    value_loss = np.mean(np.maximum((value - target) ** 2, (near - target) ** 2)) / 2
    entropy = np.sum(log_std + np.log(2 * np.pi * np.e) / 2)
    total = policy_loss + config.value_coef * value_loss - config.entropy_coef * entropy
    return total, {"policy": policy_loss, "value": value_loss, "entropy": entropy}


def numeric_gradient(loss, parameters):
    gradient = {}
    for name, array in parameters.items():
        gradient[name] = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            ends = []
            for change in (1e-5, -1e-5):
                changed = array.copy()
                changed[index] += change
                ends.append(loss({**parameters, name: changed})[0])
            gradient[name][index] = (ends[0] - ends[1]) / 2e-5
    return gradient


def test_one_whole_update_equals_plain_numpy():
    rate, epsilon, limit = 0.01, 1e-5, 0.05
    agent = Agent(
        [Walk() for _ in range(2)],
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
    for step in (1, 2):
        before = {name: agent.variables()[name].astype(np.float64) for name in names}
        result = agent.iterate()
        arrays, scalars = result["arrays"], result["scalars"]

        def loss(parameters, arrays=arrays):
            return numpy_loss(parameters, arrays, agent.config)

        gradient = numeric_gradient(loss, before)
        norm = np.sqrt(sum(np.sum(one**2) for one in gradient.values()))
        assert norm > limit
        np.testing.assert_allclose(scalars["losses/gradient_norm"], norm, rtol=1e-4)
        for name, number in loss(before)[1].items():
            np.testing.assert_allclose(scalars[f"losses/{name}"], number, rtol=1e-4, atol=1e-5)
        for name in names:
            shown = arrays[f"gradients/{name.removeprefix('network/')}"]
            np.testing.assert_allclose(shown, gradient[name], rtol=1e-3, atol=1e-4)
            short = gradient[name] * limit / norm
            first[name] = 0.9 * first[name] + 0.1 * short
            second[name] = 0.999 * second[name] + 0.001 * short**2
            size = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            after = before[name] - size * first[name] / (np.sqrt(second[name]) + epsilon)
            np.testing.assert_allclose(agent.variables()[name], after, atol=1e-5)


def test_learning_rate_falls_from_iteration_to_iteration():
    agent = Agent([Walk(), Walk()], 10, steps=50, learning_rate=0.1)
    rates = [float(agent.iterate()["scalars"]["schedule/learning_rate"]) for _ in range(4)]
    # 0, 20, 40 and 60 of 50 steps have been learned from before each of them.
    np.testing.assert_allclose(rates, [0.1, 0.06, 0.02, 0.0], atol=1e-7)
    assert int(agent.ppo.steps) == 80
    before, _ = agent.variables(), agent.iterate()
    for name, array in agent.variables().items():
        if name.startswith("network/"):
            np.testing.assert_array_equal(array, before[name])


def test_training_is_one_xla_program():
    agent = Agent([Walk()], 4, epochs=2, minibatch_size=2)

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
    # Everything that learns is inside.
    assert "MatMul" in {node.op for node in called[0].node_def}
    assert "MatMul" not in {node.op for node in graph.node}
    assert "HloModule" in agent.ppo.train.experimental_get_compiler_ir(agent.collect())(stage="hlo")


@pytest.mark.parametrize("deterministic", [True, False])
def test_acting(deterministic):
    agent = Agent([Walk()], 4, initial_log_std=1.0)
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
        assert (
            np.abs(sample).max() > 1
        )  # The policy learns from what it chose, not from what was left of it.
        assert np.std(sample) == pytest.approx(np.e, rel=0.2)


def test_a_policy_learns_which_of_three_actions_pays():
    class Bandit(gymnasium.Env):
        observation_space = spaces.Discrete(2)
        action_space = spaces.Discrete(3, start=5)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._context = int(self.np_random.integers(2))
            return self._context, {}

        def step(self, action):
            reward = float(action == 6 + self._context)
            return self.reset()[0], reward, True, False, {}

    agent = Agent(
        [Bandit() for _ in range(4)],
        16,
        epochs=4,
        minibatch_size=16,
        learning_rate=0.05,
        discount=0.0,
    )
    for _ in range(30):
        agent.iterate()
    _, action, _ = agent.ppo.policy.act(tf.constant([0, 1], tf.int64), deterministic=True)
    np.testing.assert_array_equal(action, [6, 7])


def test_everything_is_in_the_checkpoint_under_a_name_of_its_own():
    agents = [Agent([Walk()], 4, layers=(3,)) for _ in range(2)]
    names = [set(agent.ppo.variables()) for agent in agents]
    assert names[0] == names[1]  # However many agents a process has made before.
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
    assert not any("memory" in name for name in names[0])


def test_an_action_space_without_a_policy_is_refused():
    class Buttons(Walk):
        action_space = spaces.Box(0, 5, (2,), np.int32)

    with pytest.raises(UnsupportedSpaceError, match="int32"):
        Agent([Buttons()], 4)


class Everything(gymnasium.Env):
    """Observations and actions of all kinds; what is observed is random."""

    observation_space = spaces.Dict(
        camera=spaces.Box(0, 255, (36, 40, 3), np.uint8),
        speed=spaces.Box(-1, 1, (), np.float64),
        place=spaces.Tuple(
            [spaces.Discrete(3, start=1), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)]
        ),
        count=spaces.Box(-5, 5, (2, 2), np.int32),
    )
    action_space = spaces.Dict(
        steer=spaces.Box(-2, 2, (2, 1), np.float64),
        hands=spaces.Tuple([spaces.Discrete(3, start=-1), spaces.MultiDiscrete([[2], [3]])]),
        lights=spaces.MultiBinary(2),
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 1.0, False, False, {}


@pytest.mark.parametrize(
    "settings",
    [
        {
            "network": "nature",
            "shared_torso": True,
            "precision": "bfloat16",
            "policy": "beta",
            "objective": "clip_kl",
        },
        {
            "recurrent": "lstm",
            "policy": "squashed_gaussian",
            "state_dependent_std": True,
            "normalize_value": True,
        },
    ],
    ids=["images", "memory"],
)
def test_learns_from_observations_and_by_actions_of_all_kinds(settings):
    agent = Agent([Everything() for _ in range(2)], 4, layers=(8,), minibatch_size=4, **settings)
    before = agent.variables()
    result = agent.iterate()
    assert all(int(index) == -1 for _, index in result["nonfinite"].values())
    assert all(np.isfinite(scalar) for scalar in result["scalars"].values())
    after = agent.variables()
    still = [
        name
        for name in after
        if name.startswith("network/") and np.array_equal(before[name], after[name])
    ]
    assert still == []
    actions = [name for name in result["arrays"] if name.startswith("rollout/action")]
    assert len(actions) == 4


def test_invalid_actions_are_never_chosen_and_the_best_of_the_others_is_learned():
    class Choice(gymnasium.Env):
        """Pays for the number of the action; the highest one is never valid, and the next only now
        and then."""

        observation_space = spaces.Dict(
            observ=spaces.Discrete(2), action_mask=spaces.MultiBinary(4)
        )
        action_space = spaces.Discrete(4)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._free = int(self.np_random.integers(2))
            return self._seen(), {}

        def step(self, action):
            assert action < 2 + self._free
            return self.reset()[0], float(action), True, False, {}

        def _seen(self):
            return {"observ": self._free, "action_mask": np.array([1, 1, self._free, 0], np.int8)}

    settings = {
        "epochs": 4,
        "minibatch_size": 16,
        "learning_rate": 0.05,
        "discount": 0.0,
        "action_mask": True,
    }
    agent = Agent([Choice() for _ in range(4)], 16, **settings)
    for _ in range(15):
        agent.iterate()
    observ = {
        "observ": tf.constant([0, 1], tf.int64),
        "action_mask": tf.constant([[1, 1, 0, 0], [1, 1, 1, 0]], tf.int8),
    }
    _, action, _ = agent.ppo.policy.act(observ, deterministic=True)
    np.testing.assert_array_equal(action, [1, 2])
