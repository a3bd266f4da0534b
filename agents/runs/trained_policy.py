"""From a run directory to a policy that acts."""

from __future__ import annotations

from gymnasium.vector import VectorEnv

from agents.ppo.policy import Policy
from agents.runs.checkpoint import restore
from agents.runs.run_directory import RunDirectory


def load_policy(run: RunDirectory, envs: VectorEnv, which: str = "last") -> Policy:
    """Loads what a run has learned, for acting in any number of environments.

    Args:
      run: A run with checkpoints.
      envs: Environments like those it was trained in; only their spaces are used.
      which: The checkpoint: `last`, `best`, or the step of one of those kept.

    Raises:
      UsageError: No such checkpoint, or it does not fit the run's configuration or the spaces.
    """
    policy = Policy(envs.single_observation_space, envs.single_action_space, run.load_config())
    restore(run.checkpoint(which), policy.variables())
    return policy
