"""Loading the policy that a run has trained, and acting with it in plain Python."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from agents.deployment.policy_function import PolicyFunction
from agents.deployment.space_json import space_from_json
from agents.environments.data_check import DataCheck, DataError
from agents.environments.wrappers.action_mask import KEY, blocks
from agents.errors import UsageError
from agents.graph.in_graph_env import InGraphEnv
from agents.policies.averaged_policy import averaged_variables
from agents.policies.policy import Policy, check_size
from agents.runs.checkpoint import restore
from agents.runs.checkpoint_files import AVERAGED
from agents.runs.run_directory import RunDirectory
from agents.settings.config import Config
from agents.settings.entry_points import check_entry_points, refusing_modules_in
from agents.spaces import element, pack
from agents.tensorflow_setup import quiet_tensorflow
from agents.types import NestedArray, Space, VectorEnv
from agents.vector.batch_inputs import reset_mask

# Recurrent state of N episodes, float32 [N, U] each; empty for policies without memory.
PolicyState = tuple[np.ndarray, ...]


class TrainedPolicy:
    """Chooses actions for observations, one or a batch of any size.

    ```python
    policy = agents.load_policy("logdir/20260131T120000-pendulum", checkpoint="best")
    observ, _ = env.reset()
    action = policy(observ)
    ```

    Observations are those of the run's environments, with their wrappers. A recurrent policy
    carries its state from call to call: call `reset` when an episode starts, or use `step`, which
    takes and returns the state. Policies without memory may be called by several threads at once.

    Attributes:
      observation_space: Space of one observation, without the `critic_keys`.
      action_space: Space of one action.
      config: The configuration that the policy was trained with.
      recurrent: Whether actions also depend on earlier observations.
    """

    def __init__(self, policy: Policy, action_space: Space, config: Config):
        """Wraps a policy for actions of this space."""
        self.observation_space, self.action_space = policy.inputs.acting_space, action_space
        self.config = config
        self._functions = {
            deterministic: PolicyFunction(policy, action_space, deterministic)
            for deterministic in (True, False)
        }
        function = self._functions[True]
        self._check = DataCheck(self.observation_space, 1, _warn_of_bounds)
        self._actions = function.action_leaves
        self._state_sizes = [int(spec.shape[1]) for spec in function.state_specs]
        self.recurrent = bool(self._state_sizes)
        self._carried: PolicyState | None = None

    def __call__(self, observ: NestedArray, deterministic: bool = True) -> NestedArray:
        """Returns the action for an observation, or the actions for a batch of them.

        Args:
          observ: An element of the observation space, leaves [...], or a batch, leaves [N, ...].
            Integers may stand for floating point; further keys of dictionaries are ignored. The
            first finite number out of bounds, and action masks of zeros are reported in warnings.
          deterministic: Whether to take the distribution's mode instead of a sample.

        Returns:
          An element of the action space as the environment takes it, or a batch, leaves [N, ...].

        Raises:
          ValueError: The observation is one that ends training: another structure, shape or type,
            NaN, infinity, or integers out of bounds. Or a recurrent policy carries the state of
            another number of episodes.
        """
        leaves, single = self._batch(observ)
        carried = self._carried
        if not self.recurrent or carried is None:
            carried = self._zero_state(len(leaves[0]))
        elif len(carried[0]) != len(leaves[0]):
            raise ValueError(
                f"The policy carries the state of {len(carried[0])} episodes and got "
                f"{len(leaves[0])} observations; call reset() before other episodes."
            )
        actions, state = self._act(leaves, carried, deterministic)
        if self.recurrent:
            self._carried = state
        return self._unbatch(actions, single)

    def reset(self, done: NestedArray | None = None) -> None:
        """Clears the recurrent state at the start of episodes.

        Args:
          done: bool [N], which episodes of the batch ended; by default all.

        Raises:
          ValueError: A mask of another shape or type.
        """
        if done is None or self._carried is None:
            self._carried = None
            return
        ended = reset_mask(np.atleast_1d(done), None, len(self._carried[0]))[:, None]  # [N, 1]
        self._carried = tuple(np.where(ended, np.float32(0), part) for part in self._carried)

    def step(
        self, observ: NestedArray, state: PolicyState | None = None, deterministic: bool = True
    ) -> tuple[NestedArray, PolicyState]:
        """Calls the policy with a recurrent state, and returns the next one.

        Args:
          observ: See `__call__`.
          state: The state that the last step returned; None at the start of episodes.
          deterministic: See `__call__`.

        Returns:
          The action or actions, and the state after the step, [N, U] each; N is 1 for a single
          observation.

        Raises:
          ValueError: As `__call__`, or the state has another shape or is not finite.
        """
        leaves, single = self._batch(observ)
        if state is None:
            state = self._zero_state(len(leaves[0]))
        else:
            state = self._checked_state(state, len(leaves[0]))
        actions, state = self._act(leaves, state, deterministic)
        return self._unbatch(actions, single), state

    def _zero_state(self, num: int) -> PolicyState:
        return tuple(np.zeros([num, size], np.float32) for size in self._state_sizes)

    def _checked_state(self, state: PolicyState, num: int) -> PolicyState:
        """Returns a recurrent state as float32 [num, U] each; raises ValueError for another."""
        shapes = [(num, size) for size in self._state_sizes]
        parts = [np.asarray(part) for part in state]
        if [part.shape for part in parts] != shapes:
            raise ValueError(
                f"Expected a recurrent state of shapes {shapes}, got "
                f"{[part.shape for part in parts]}."
            )
        if all(part.dtype.kind in "fiu" for part in parts):
            with np.errstate(over="ignore"):
                numbers = tuple(part.astype(np.float32, copy=False) for part in parts)
            if all(np.isfinite(part).all() for part in numbers):
                return numbers
        raise ValueError("Expected a recurrent state of finite numbers, as `step` returns it.")

    def _act(
        self, leaves: Sequence[np.ndarray], state: PolicyState, deterministic: bool
    ) -> tuple[list[np.ndarray], PolicyState]:
        """Returns the leaves of actions [N, ...] and the next state for leaves [N, ...]."""
        if not isinstance(deterministic, bool | np.bool_):  # Such as a state.
            raise TypeError(
                f"deterministic: expected True or False, got {type(deterministic).__name__}; "
                "policy.step(observ, state) takes a state"
            )
        function = self._functions[bool(deterministic)]
        results = function.concrete(*(tf.constant(tensor) for tensor in (*leaves, *state)))
        actions = [results[name].numpy() for name, _ in self._actions]
        return actions, tuple(results[f"next_{spec.name}"].numpy() for spec in function.state_specs)

    def _batch(self, observ: NestedArray) -> tuple[list[np.ndarray], bool]:
        """Returns the leaves [N, ...] of an observation or a batch, and whether it is a single one.

        Raises:
          ValueError: See `__call__`.
        """
        try:
            arrays, single = self._check.arrays(observ)
        except DataError as error:
            raise ValueError(self._describe_refused(observ, error)) from error.__cause__
        if self.config.action_mask:
            is_blocked = blocks(pack(self.observation_space, arrays)[KEY], self.action_space)
            if is_blocked.any():
                warnings.warn(
                    f"The policy got an {KEY} without a valid action in {is_blocked.sum()} of "
                    f"{is_blocked.size} observations, and takes any action there.",
                    stacklevel=3,
                )
        return ([array[None] for array in arrays] if single else arrays), single

    def _describe_refused(self, observ: NestedArray, error: DataError) -> str:
        """Returns the message for an observation that the check refused."""
        if isinstance(observ, tuple) and observ and isinstance(observ[-1], Mapping):
            with contextlib.suppress(DataError):
                self._check.arrays(observ[0])
                if len(observ) == 2:
                    return (
                        "env.reset() returns two values, and the policy takes the first: "
                        "observ, info = env.reset()"
                    )
                if len(observ) == 5:
                    return (
                        "env.step() returns five values, and the policy takes the first: "
                        "observ, reward, terminated, truncated, info = env.step(action)"
                    )
        problem = " ".join(str(error).split())  # Spaces may have several lines.
        return f"The policy got {problem.removeprefix('returned ')}"

    def _unbatch(self, leaves: list[np.ndarray], single: bool) -> NestedArray:
        """Returns actions [N, ...] in the structure of the action space, or the single one."""
        if single:
            return element(self.action_space, leaves, 0)
        return pack(self.action_space, leaves)


def _warn_of_bounds(returned: str) -> None:
    warnings.warn(
        f"The policy got {returned.removeprefix('returned ')}. It still returns an action, and no "
        "longer checks these bounds.",
        stacklevel=2,
    )


def load_policy(run: RunDirectory | str | Path, checkpoint: str | int = "last") -> TrainedPolicy:
    """Loads the policy of a run, without its environments.

    Args:
      run: A run with checkpoints, or its folder.
      checkpoint: `last`, `best`, `averaged` (the averaged weights in the last one), or the step of
        one that was kept.

    Raises:
      UsageError: There is no such run or checkpoint, it does not fit the run's configuration or the
        spaces, or the run names a module that lies in its own folder.
    """
    run = RunDirectory.of(run)
    with quiet_tensorflow():
        tf.config.list_logical_devices()  # Looks for GPUs; otherwise the first operation would.
    spaces = run_spaces(run)
    policy = restore_policy(run, *spaces, str(checkpoint))
    return TrainedPolicy(policy, spaces[1], run.load_config())


def restore_policy(
    run: RunDirectory, observation_space: Space, action_space: Space, checkpoint: str
) -> Policy:
    """Creates the policy of a run for these spaces, with the weights of a checkpoint.

    Raises:
      UsageError: See `load_policy`.
    """
    config = run.load_config()
    with refusing_modules_in(run.path, run.path.parent):
        check_entry_points(config)
    path = run.checkpoint(checkpoint)
    num_bytes = path.with_suffix(".npz").stat().st_size
    check_size(observation_space, action_space, config, num_bytes)
    policy = Policy(observation_space, action_space, config)
    is_averaged = checkpoint == AVERAGED
    variables = averaged_variables(policy) if is_averaged else policy.variables()
    restore(path, variables)
    return policy


def run_spaces(run: RunDirectory) -> tuple[Space, Space]:
    """Returns the observation space and the action space in the run's newest checkpoint.

    Raises:
      UsageError: There is no checkpoint, or its spaces are damaged.
    """
    recorded = run.record("spaces")
    if not recorded:
        run.checkpoint("last")  # Says so if there is none.
    try:
        names = ("observation_space", "action_space")
        observation_space, action_space = (space_from_json(recorded[name]) for name in names)
    except (KeyError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise UsageError(f"{run.checkpoints}: the spaces are damaged ({reason})") from None
    return observation_space, action_space


def single_spaces(envs: VectorEnv | InGraphEnv) -> tuple[Space, Space]:
    """Returns the observation space and the action space of one of the environments."""
    if isinstance(envs, InGraphEnv):
        return envs.observation_space, envs.action_space
    return envs.single_observation_space, envs.single_action_space
