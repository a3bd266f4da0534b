"""Loading the policy that a run has trained."""

from __future__ import annotations

from pathlib import Path

from agents.graph.in_graph_env import InGraphEnv
from agents.policies.policy import Policy
from agents.settings.entry_points import check_entry_points, refusing_modules_in
from agents.storage.checkpoint import restore
from agents.storage.run_directory import RunDirectory
from agents.types import VectorEnv


def load_policy(
    run: RunDirectory | str | Path, envs: VectorEnv | InGraphEnv, checkpoint: str = "last"
) -> Policy:
    """Loads the policy of a run, for acting in any number of environments.

    Args:
      run: A run with checkpoints, or its folder.
      envs: Environments like those it was trained in; only their spaces are used.
      checkpoint: `last`, `best`, or the step of one that was kept.

    Raises:
      UsageError: There is no such run or checkpoint, it does not fit the run's configuration or the
        spaces, or the run names a module that lies in its own folder.
    """
    run = run if isinstance(run, RunDirectory) else RunDirectory.of(run)
    if isinstance(envs, InGraphEnv):
        spaces = envs.observation_space, envs.action_space
    else:
        spaces = envs.single_observation_space, envs.single_action_space
    config = run.load_config()
    with refusing_modules_in(run.path, run.path.parent):
        check_entry_points(config)
    policy = Policy(*spaces, config)
    restore(run.checkpoint(checkpoint), policy.variables())
    return policy
