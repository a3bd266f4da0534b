from pathlib import Path

import gymnasium
import numpy as np
import pytest

from agents.errors import UsageError
from agents.graph.in_graph_batch_env import InGraphBatchEnv
from agents.policies.policy import Policy
from agents.settings.config_file import load_config
from agents.storage.checkpoint import Checkpoints
from agents.storage.run_directory import RunDirectory
from agents.tensor_envs import CartPole, InGraphTensorEnv
from agents.training.trained_policy import load_policy
from agents.vector.batch_env import BatchEnv


@pytest.fixture
def envs():
    batch = BatchEnv([gymnasium.make("CartPole-v1")], blocking=True)
    yield batch
    batch.close()


def save(path, envs, *seeds):
    """A run with a checkpoint of the initial weights for each seed, at steps 0, 1, ..."""
    run = RunDirectory(path)
    run.prepare(load_config("cartpole", layers=[4]))
    for step, seed in enumerate(seeds):
        config = run.load_config(seed=seed)
        policy = Policy(envs.single_observation_space, envs.single_action_space, config)
        Checkpoints(run.checkpoints, policy.variables()).save(step)
    return run


def test_loads_the_weights_of_a_checkpoint(tmp_path, envs):
    run = save(tmp_path / "run", envs, 3, 4)
    for which, seed in (("0", 3), ("1", 4), ("last", 4)):
        saved = Policy(
            envs.single_observation_space, envs.single_action_space, run.load_config(seed=seed)
        ).variables()
        for name, variable in load_policy(run, envs, which).variables().items():
            np.testing.assert_array_equal(variable, saved[name])


@pytest.mark.parametrize("as_folder", [Path, str])
def test_loads_the_policy_of_a_folder_for_environments_of_any_kind(tmp_path, envs, as_folder):
    run = save(tmp_path / "run", envs, 3, 4)
    expected = load_policy(run, envs, checkpoint="0").variables()
    for environments in (envs, InGraphBatchEnv(envs), InGraphTensorEnv(CartPole(), 5)):
        policy = load_policy(as_folder(run.path), environments, checkpoint="0")
        for name, variable in policy.variables().items():
            np.testing.assert_array_equal(variable, expected[name])
    with pytest.raises(UsageError, match="is not a run"):
        load_policy(as_folder(tmp_path), envs)


def test_a_checkpoint_that_is_missing_or_does_not_fit_raises(tmp_path, envs):
    run = save(tmp_path / "run", envs, 3)
    with pytest.raises(UsageError, match="--checkpoint=7"):
        load_policy(run, envs, "7")
    run.prepare(run.load_config(layers=[5]))
    with pytest.raises(UsageError, match="does not fit"):
        load_policy(run, envs)
