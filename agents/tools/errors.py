"""The errors that people see, in one place: what failed, where, and what was expected."""

from __future__ import annotations

import signal


class UsageError(ValueError):
    """Input that the user can put right. Commands print it in at most three lines and end with exit code 2."""


class UnsupportedSpaceError(UsageError):
    """A space that this library has no arrays, policy or network for."""


class InvalidActionError(ValueError):
    """An action outside of the action space; the message names the environment's index in the batch."""


class NonFiniteError(FloatingPointError):
    """A NaN or an infinity where a number was expected; the message names the tensor, environment and step."""


class EnvironmentFailure(RuntimeError):
    """Something went wrong with an environment, or with the process that hosts it.

    Attributes:
      env_index: Index of the environment in its batch; None where it is not known.
      pid: The process that hosts the environment.
      step: How many batch steps the environment had been asked for.
    """

    def __init__(self, message: str, env_index: int | None = None, pid: int | None = None, step: int | None = None):
        """Keeps where it happened; `message` says what."""
        self.env_index, self.pid, self.step = env_index, pid, step
        place = {"environment": env_index, "process": pid, "step": step}
        where = ", ".join(f"{name} {number}" for name, number in place.items() if number is not None)
        super().__init__(f"{message} ({where})" if where else message)


class EnvironmentRaisedError(EnvironmentFailure):
    """The environment raised an exception. Its traceback, as text, ends the message.

    Attributes:
      summary: The first line of the message.
      traceback_text: The traceback from the process in which it happened.
      type_name: The name of the exception's type, such as "ValueError".
    """

    def __init__(
        self,
        message: str,
        traceback_text: str,
        env_index: int | None,
        type_name: str,
        pid: int | None = None,
        step: int | None = None,
    ):
        """Joins what, where and the traceback."""
        super().__init__(message, env_index, pid, step)
        self.summary = message
        self.traceback_text = traceback_text
        self.type_name = type_name
        self.args = (f"{self.args[0]}\n\nTraceback of the environment:\n{traceback_text.rstrip()}",)


class WorkerDiedError(EnvironmentFailure):
    """The process that hosts the environment ended without being asked to.

    Attributes:
      exit_code: As `subprocess` gives it, negative for the signal that killed the process; None where unknown.
    """

    def __init__(
        self, exit_code: int | None, env_index: int | None = None, pid: int | None = None, step: int | None = None
    ):
        """Puts the exit code into words."""
        super().__init__(f"A worker process {_describe_exit(exit_code)}", env_index, pid, step)
        self.exit_code = exit_code


class WorkerTimeoutError(EnvironmentFailure, TimeoutError):
    """The process that hosts the environment did not answer in time. It may still be at work."""


def _describe_exit(exit_code: int | None) -> str:
    if exit_code is None:
        return "closed its connection"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"
