import time

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.deployment.space_json import spaces_to_json
from agents.deployment.trained_policy import load_policy, restore_policy, single_spaces
from agents.errors import UsageError
from agents.policies.policy import Policy
from agents.policies.recurrent_cells import reset_state
from agents.runs.checkpoint import Checkpoints
from agents.runs.checkpoint_files import write
from agents.runs.run_directory import RunDirectory
from agents.settings.config_file import load_config
from agents.spaces import element, flatten
from agents.vector.batch_env import BatchEnv
from tests.deployment.untrained import KINDS, batches

# Random masks may allow nothing.
pytestmark = pytest.mark.filterwarnings("ignore:The policy got an action_mask without a valid")


@pytest.fixture
def envs():
    batch = BatchEnv([gymnasium.make("CartPole-v1")], blocking=True)
    yield batch
    batch.close()


def save(path, envs, *seeds, **settings):
    """A run with a checkpoint of the initial weights for each seed, at steps 0, 1, ..."""
    run = RunDirectory(path)
    run.prepare(load_config("cartpole", layers=[4], **settings))
    record = {"spaces": spaces_to_json(*single_spaces(envs))}
    for step, seed in enumerate(seeds):
        policy = Policy(*single_spaces(envs), run.load_config(seed=seed))
        Checkpoints(run.checkpoints, policy.variables(), record).save(step)
    return run


def expected_actions(kind, run, observs):
    """Actions of the policy itself for a sequence of batches, with its recurrent state."""
    policy = restore_policy(run, *kind.spaces, "last")
    states, actions = None, []
    for observ in observs:
        tensors = tf.nest.map_structure(tf.constant, observ)
        _, action, states = policy.act(tensors, deterministic=True, states=states)
        actions.append(tf.nest.map_structure(lambda tensor: tensor.numpy(), action))
    return actions


def assert_equal(space, actual, expected, rtol=1e-5):
    pairs = zip(flatten(space, actual), flatten(space, expected), strict=True)
    for one, other in pairs:
        assert one.dtype == other.dtype and np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol, atol=1e-5)


def test_loads_the_weights_of_a_checkpoint(tmp_path, envs):
    run, spaces_ = save(tmp_path / "run", envs, 3, 4), single_spaces(envs)
    for which, seed in (("0", 3), ("1", 4), ("last", 4)):
        saved = Policy(*spaces_, run.load_config(seed=seed)).variables()
        for name, variable in restore_policy(run, *spaces_, which).variables().items():
            np.testing.assert_array_equal(variable, saved[name])


def test_loading_needs_no_environment(tmp_path, envs):
    run = save(tmp_path / "run", envs, 3, env="NoSuchEnvironment-v0")
    for path in (run.path, str(run.path)):
        policy = load_policy(path, checkpoint="0")
        assert policy.observation_space == envs.single_observation_space
        assert policy(envs.single_observation_space.sample()) in (0, 1)
    with pytest.raises(UsageError, match="is not a run"):
        load_policy(tmp_path)


def test_a_checkpoint_without_spaces_raises(tmp_path, envs):
    run = save(tmp_path / "run", envs)
    with pytest.raises(UsageError, match="no checkpoint yet"):
        load_policy(run)
    for step, damaged in enumerate([{}, {"observation_space": 3, "action_space": []}]):
        write(run.checkpoints, step, {}, best=False, record={"spaces": damaged})
        with pytest.raises(UsageError, match="checkpoints: the spaces are damaged"):
            load_policy(run)


def test_a_checkpoint_that_is_missing_or_does_not_fit_raises(tmp_path, envs):
    run = save(tmp_path / "run", envs, 3)
    with pytest.raises(UsageError, match="--checkpoint=7"):
        load_policy(run, "7")
    run.prepare(run.load_config(layers=[5]))
    with pytest.raises(UsageError, match="does not fit"):
        load_policy(run)


@pytest.mark.parametrize("name", KINDS)
def test_batches_and_single_observations_get_actions_of_the_policy(name, saved, loaded):
    kind, run, policy = KINDS[name], saved(name), loaded(name)
    observation_space, action_space = kind.spaces
    observs = [batches(observation_space, 3, seed) for seed in range(3)]
    expected = expected_actions(kind, run, observs)
    for observ, actions in zip(observs, expected, strict=True):
        assert_equal(action_space, policy(observ), actions)
    for row in range(3):
        policy.reset()
        for observ, actions in zip(observs, expected, strict=True):
            one = element(observation_space, flatten(observation_space, observ), row)
            action = policy(one)
            assert action_space.contains(action)
            row_of_batch = element(action_space, flatten(action_space, actions), row)
            assert_equal(action_space, action, row_of_batch)
    policy.reset()
    observ = batches(observation_space, 20)
    leaves = [flatten(action_space, policy(observ, deterministic=False)) for _ in range(2)]
    assert any(np.any(one != other) for one, other in zip(*leaves, strict=True))
    for row in range(20):
        assert action_space.contains(element(action_space, leaves[0], row))


def test_recurrent_state_is_carried_reset_and_passed(loaded):
    kind, policy = KINDS["recurrent"], loaded("recurrent")
    assert policy.recurrent and not loaded("gaussian").recurrent
    observs = [batches(kind.spaces[0], 3, seed) for seed in range(4)]
    state, actions = None, []
    for observ in observs:
        action, state = policy.step(observ, state)
        np.testing.assert_array_equal(policy(observ), action)
        actions.append(action)
    assert not np.allclose(policy(observs[0]), actions[0])
    done = np.array([False, True, False])
    policy.reset(done)
    inner = tuple(reset_state(tuple(map(tf.constant, state)), tf.constant(done)))
    partly, _ = policy.step(observs[0], tuple(part.numpy() for part in inner))
    policy.reset()
    np.testing.assert_array_equal(policy(observs[0]), actions[0])
    np.testing.assert_allclose(partly[1], actions[0][1], rtol=1e-6)
    with pytest.raises(ValueError, match="carries the state of 3 episodes and got 1 obs"):
        policy(observs[0][0])
    with pytest.raises(ValueError, match=r"shapes \[\(3, 8\)\], got \[\(2, 8\)\]"):
        policy.step(observs[0], (np.zeros((2, 8)),))


# By policy, observations that it refuses, and words of the message.
REFUSED = {
    "gaussian": [
        (np.zeros(4), r"shape \(4,\), expected Box.* or a batch of them"),
        (np.zeros((2, 4)), r"shape \(2, 4\), expected Box"),
        (np.zeros((1, 2, 3)), r"shape \(1, 2, 3\), expected Box"),
        (0.0, r"shape \(\), expected Box"),
        ("x", r"shape \(\), expected Box"),
        ([[0, 0, 0], [0, 0]], "expected Box"),
        ({"observ": np.zeros(3)}, "expected Box"),
        (["1", "2", "3"], "type <U1, expected Box"),
        (np.zeros(3, complex), "type complex128, expected Box"),
        (np.zeros(3, bool), "type bool, expected Box"),
        (np.array([0, None, 0]), "type object, expected Box"),
        ([0, np.nan, 0], r"The policy got nan at \[1\] in an observation of Box"),
        ([[0, 0, 0], [0, 0, np.inf]], r"got inf at \[1, 2\] in an observation of Box"),
        ([0, 1e300, 0], r"got inf at \[1\]"),
        ((np.zeros(3), {}), r"env.reset\(\) returns two values"),
        ((np.zeros(3), 0.0, False, False, {}), r"env.step\(\) returns five values"),
    ],
    "image": [
        (np.zeros((36, 36, 2)), "type float64, expected Box.*uint8"),
        (np.full((36, 36, 2), 300), r"an observation with 300, expected Box\(0, 255"),
        (np.full((2, 36, 36, 2), -1), r"an observation with -1, expected Box\(0, 255"),
        (np.full((36, 36, 2), 300).tolist(), "an observation with 300, expected Box"),
    ],
    "multi-categorical": [
        ([[0.5, 0], [0, 0]], "type float64, expected MultiDiscrete"),
        ([[0, 3], [0, 0]], r"got 3 at \[0, 1\] in an observation of MultiDiscrete"),
        ([[[0, 0], [-1, 0]]], r"got -1 at \[0, 1, 0\] in an observation of MultiDiscrete"),
    ],
    "masked dict": [
        ({"place": 3.7}, r"type float64 at \['place'\], expected Discrete\(3\)"),
        ({"place": 99}, r"got 99 at \['place'\] in an observation of Discrete\(3\)"),
        ({"numbers": [np.nan, 0]}, r"got nan at \['numbers'\]\[0\] in an observation of Box"),
        ({"numbers": [0]}, r"shape \(1,\) at \['numbers'\], expected Box"),
        ({"action_mask": [1, 1, 1]}, r"shape \(3,\) at \['action_mask'\], expected MultiBinary"),
        ({"action_mask": [2, 0, 0, 0]}, r"got 2 at \['action_mask'\]\[0\]"),
        ({"action_mask": np.ones(4)}, "type float64.*expected MultiBinary"),
        ({"action_mask": np.ones((2, 4), int)}, r"shapes \[2, 4\] at \['action_mask'\], .*same"),
        (
            {"numbers": ...},
            "the observation with the keys 'action_mask', 'place', expected a dictionary with 'numbers'",
        ),
        ([1, 2, 3], "expected a dictionary with 'action_mask'"),
    ],
    "tuple": [
        (([0], {"goal": [1.5, None]}), r"type object at \[1\]\['goal'\], expected Box"),
        (([0], {}), r"the observation {} at \[1\], expected a dictionary with 'goal'"),
        ((([0], {"goal": [0, 0]}), {}), r"env.reset\(\) returns two values"),
    ],
}


@pytest.mark.parametrize("name", REFUSED)
def test_observations_that_end_training_raise_value_error(name, loaded):
    policy = loaded(name)
    valid = policy.observation_space.sample()
    for observ, message in REFUSED[name]:
        if isinstance(observ, dict) and isinstance(valid, dict):
            given = {**valid, **observ}
            observ = {key: value for key, value in given.items() if value is not ...}
        for act in (policy, policy.step):
            with pytest.raises(ValueError, match=message) as caught:
                act(observ)
            assert "\n" not in str(caught.value)
    policy(valid)


def test_observations_of_any_origin_are_the_same(loaded):
    policy = loaded("gaussian")
    whole = np.array([1, 0, -1], np.float32)
    wide = np.zeros((3, 2), np.float32)
    wide[:, 1] = whole
    read_only = whole.copy()
    read_only.flags.writeable = False
    given = [whole.tolist(), whole.astype(int), whole.astype(np.float64), whole.astype(np.float16)]
    given += [whole.astype(">f4"), tf.constant(whole), wide[:, 1], read_only]
    for observ in given:
        np.testing.assert_array_equal(policy(observ), policy(whole))
    assert policy(np.zeros((0, 3))).shape == (0, 2)
    image = loaded("image")
    pixels = image.observation_space.sample()
    assert image(pixels.astype(np.int64)) == image(pixels.tolist()) == image(pixels)
    masked = loaded("masked dict")
    observ = masked.observation_space.sample()
    mask = observ["action_mask"].astype(bool)
    others = dict(reversed(observ.items())) | {"action_mask": mask, "unknown": "key"}
    assert masked(others) == masked(observ)


def test_the_first_finite_number_out_of_bounds_is_reported_once(saved):
    policy = load_policy(saved("gaussian"))
    with pytest.warns(UserWarning, match=r"The policy got 5.0 at \[0\] in an observation of Box"):
        policy([5, 0, 0])
    policy([6, 0, 0])  # Warnings are errors here.
    with pytest.raises(ValueError, match=r"got nan at \[0\]"):
        policy([np.nan, 0, 0])


def test_other_recurrent_states_raise_value_error(loaded):
    kind, policy = KINDS["recurrent"], loaded("recurrent")
    observ = batches(kind.spaces[0], 3)
    for state, message in (
        (np.zeros((3, 9), np.float32), r"shapes \[\(3, 8\)\], got \[\(3, 9\)\]"),
        (np.full((3, 8), np.nan, np.float32), "finite numbers"),
        (np.full((3, 8), 1e300), "finite numbers"),
        (np.zeros((3, 8), complex), "finite numbers"),
        (np.full((3, 8), "0"), "finite numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            policy.step(observ, (state,))
    expected, _ = policy.step(observ)
    action, _ = policy.step(observ, (np.zeros((3, 8)),))  # float64.
    np.testing.assert_array_equal(action, expected)
    policy(observ)
    for done in ([True], [0.5] * 3, [True] * 4):
        with pytest.raises(ValueError, match=r"A reset mask must be bool \[3\]"):
            policy.reset(done)


def test_a_state_in_place_of_deterministic_is_refused(loaded):
    policy = loaded("gaussian")
    observ = batches(policy.observation_space, 2)
    for state in (None, np.zeros(2), ()):
        with pytest.raises(TypeError, match=r"policy\.step\(observ, state\) takes a state"):
            policy(observ, state)
    assert_equal(policy.action_space, policy(observ, np.True_), policy(observ))


def test_masks_exclude_actions(loaded):
    policy = loaded("masked dict")
    observ = batches(policy.observation_space, 4)
    observ["action_mask"] = np.eye(4, dtype=np.int8)
    np.testing.assert_array_equal(policy(observ), np.arange(4) + 1)
    np.testing.assert_array_equal(policy(observ, deterministic=False), np.arange(4) + 1)
    observ["action_mask"][1:3] = 0
    with pytest.warns(UserWarning, match="action_mask without a valid action in 2 of 4 observ"):
        np.testing.assert_array_equal(policy(observ)[[0, 3]], [1, 4])


def test_a_call_takes_less_than_a_millisecond_of_its_thread(loaded):
    policy, seconds = loaded("gaussian"), []
    for _ in range(300):
        start = time.thread_time()
        policy(np.zeros(3, np.float32))
        seconds.append(time.thread_time() - start)
    assert np.median(seconds) < 1e-3


def test_policies_act_without_what_only_the_critic_saw(tmp_path):
    box = spaces.Box(-1, 1, (2,), np.float32)
    space = spaces.Dict(seen=box, hidden=box)
    run = RunDirectory(tmp_path / "run")
    config = load_config("default", layers=[4], critic_keys=["hidden"])
    run.prepare(config)
    record = {"spaces": spaces_to_json(space, box)}
    Checkpoints(run.checkpoints, Policy(space, box, config).variables(), record).save(0)
    policy = load_policy(run)
    assert policy.observation_space == spaces.Dict(seen=box)
    seen = np.array([0.5, -0.5], np.float32)
    action = policy({"seen": seen})
    np.testing.assert_array_equal(policy({"seen": seen, "hidden": seen}), action)
    with pytest.raises(ValueError, match="seen"):
        policy({"hidden": seen})
