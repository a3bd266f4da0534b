import gymnasium
import numpy as np
import pytest

from agents.config import load_config
from agents.ppo.policy import Policy
from agents.runs.checkpoint import Checkpoints
from agents.runs.run_directory import RunDirectory
from agents.runs.trained_policy import load_policy
from agents.tools.batch_env import BatchEnv
from agents.tools.errors import UsageError


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
        saved = Policy(envs.single_observation_space, envs.single_action_space, run.load_config(seed=seed)).variables()
        for name, variable in load_policy(run, envs, which).variables().items():
            np.testing.assert_array_equal(variable, saved[name])


def test_a_checkpoint_that_is_not_there_or_does_not_fit_is_named(tmp_path, envs):
    run = save(tmp_path / "run", envs, 3)
    with pytest.raises(UsageError, match="--checkpoint=7"):
        load_policy(run, envs, "7")
    run.prepare(run.load_config(layers=[5]))
    with pytest.raises(UsageError, match="does not fit"):
        load_policy(run, envs)
