"""The errors and warnings that users see: what failed, where, and what was expected."""

from __future__ import annotations

import collections
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from agents.types import Info

# Longest line of an error on the console, in characters.
MAX_LINE_LENGTH = 400

# Longest message and traceback of an environment's exception, in characters.
MAX_MESSAGE_LENGTH = 10_000
MAX_TRACEBACK_LENGTH = 100_000

# Exit code of a command after a `UsageError`.
USAGE_ERROR = 2

# Exit code of a learner that can't go on without another: of sysexits.h, "try again".
LEARNER_LOST = 75


def printable(line: str) -> str:
    """Returns a line in which no character moves the cursor, colors or hides what a terminal shows.

    Names, values and messages of files and environments may hold such characters.
    """
    return "".join(
        character
        if character.isprintable() or character == "\t"
        else character.encode("unicode_escape").decode()
        for character in line
    )


def printable_lines(text: str) -> str:
    """Returns a text whose lines are `printable`."""
    return "\n".join(map(printable, text.split("\n")))


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Prints a warning; one for users without the line of code that it came from.

    The arguments are those of `warnings.showwarning`, which this replaces.
    """
    text = f"warning: {message}"
    if category is not UserWarning:
        text = warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n")
    print(printable_lines(text), file=file or sys.stderr)


class UsageError(ValueError):
    """Input that the user can correct. Commands print it in at most three lines and exit with 2."""

    def __str__(self) -> str:
        return printable_lines(super().__str__())


class UnsupportedSpaceError(UsageError):
    """A space that this library has no arrays, policy or network for."""


class JournalError(UsageError):
    """The journal of a sweep can't be written, as on a full disk; that is no trial's fault."""


class CheckpointError(UsageError):
    """The last checkpoint of a run can't be written, as on a full disk."""


class InvalidActionError(ValueError):
    """An action outside of the action space; the message names the environment's index."""


class NonFiniteError(FloatingPointError):
    """A NaN or infinity instead of a number; the message names tensor, environment and step."""


class LearnerLostError(RuntimeError):
    """Another learner of a run has failed, or does not answer; none can go on without it.

    Attributes:
      rank: Its number; 0 is the chief.
      host: Name or address of its machine.
      cause: What it did, such as "closed its connection".
    """

    def __init__(self, rank: int, host: str, cause: str):
        """Stores who was lost, and why."""
        self.rank, self.host, self.cause = rank, host, cause
        name = f"learner {rank}{' (the chief)' if rank == 0 else ''} on {host}"
        super().__init__(f"{name} {cause}")


class RunLostError(RuntimeError):
    """The folder of a run was moved, deleted or replaced while it was trained.

    Attributes:
      path: Where it was.
      found: Where it is now; None if it was deleted, or that is not known.
    """

    def __init__(self, path: Path, found: Path | None):
        """Stores both places."""
        self.path, self.found = path, found
        if found:
            event, advice = f"moved to {found}", "move it back to resume the run"
        elif path.exists():
            event, advice = "replaced, or its file 'lock' was", "resume it if it has checkpoints"
        else:
            event, advice = "deleted", "start a new run"
        super().__init__(
            f"{path} was {event}, during training\ntraining stops and writes nothing more; {advice}"
        )


class EnvironmentFailure(RuntimeError):
    """An environment failed, or the process that hosts it.

    Attributes:
      env_index: Index of the environment in its batch; None if unknown.
      pid: Id of the process that hosts the environment.
      step: Number of batch steps so far, including the failed one.
      others: The other failures of the same step or reset of the batch, a tuple of
        `EnvironmentFailure`. One line of the message counts them.
      note: A line to add to the message.
      infos: Tuples of intact environments of the same process: row, info, and the info of the
        step that ended the episode, or None.
    """

    infos: Sequence[tuple[int, Info, Info | None]] = ()
    others: tuple[EnvironmentFailure, ...] = ()
    note: str = ""

    def __init__(
        self,
        message: str,
        env_index: int | None = None,
        pid: int | None = None,
        step: int | None = None,
    ):
        """Stores the place of the failure and appends it to `message`."""
        self.env_index, self.pid, self.step = env_index, pid, step
        place = {"environment": env_index, "process": pid, "step": step}
        where = ", ".join(
            f"{name} {number}" for name, number in place.items() if number is not None
        )
        super().__init__(f"{message} ({where})" if where else message)

    @property
    def kind(self) -> tuple[str, str]:
        """Host and cause, to count equal failures: `("process", "was killed by ...")`."""
        return "environment", type(self).__name__

    def __str__(self) -> str:
        lines = [str(self.args[0]), self.note, _count_others(self)]
        return printable_lines("\n".join(filter(None, lines)))


class EnvironmentRaisedError(EnvironmentFailure):
    """The environment raised an exception; the message ends with its traceback.

    Attributes:
      summary: The message without the place and the traceback.
      traceback_text: The traceback from the process of the environment.
      type_name: Name of the exception's type, such as "ValueError".
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
        """Stores the place and the traceback."""
        super().__init__(message, env_index, pid, step)
        self.summary = message
        self.traceback_text = traceback_text
        self.type_name = type_name

    @property
    def kind(self) -> tuple[str, str]:
        """See `EnvironmentFailure.kind`."""
        return "environment", self.type_name

    def __str__(self) -> str:
        traceback_text = self.traceback_text.rstrip()
        if not traceback_text:
            return super().__str__()
        traceback_text = printable_lines(traceback_text)
        return f"{super().__str__()}\n\nTraceback of the environment:\n{traceback_text}"

    def records(self) -> list[tuple[str, str, int | None, str]]:
        """Returns plain data of this error and its others, for `raised_error`."""
        return [
            (error.summary, error.traceback_text, error.env_index, error.type_name)
            for error in (self, *self.others)
            if isinstance(error, EnvironmentRaisedError)
        ]


class InvalidDataError(EnvironmentRaisedError):
    """The environment returned data that is not in its spaces; there is no traceback."""


def raised_error(
    summary: str,
    traceback_text: str,
    env_index: int | None,
    type_name: str,
    pid: int | None = None,
    step: int | None = None,
) -> EnvironmentRaisedError:
    """Returns an error with one of the `EnvironmentRaisedError.records` of another process."""
    is_invalid_data = type_name == InvalidDataError.__name__ and not traceback_text
    error_type = InvalidDataError if is_invalid_data else EnvironmentRaisedError
    return error_type(summary, traceback_text, env_index, type_name, pid, step)


class WorkerDiedError(EnvironmentFailure):
    """The process that hosts the environment exited unexpectedly.

    Attributes:
      exit_code: As in `subprocess`, negative for the signal that killed the process; None if
        unknown.
    """

    def __init__(
        self,
        exit_code: int | None,
        env_index: int | None = None,
        pid: int | None = None,
        step: int | None = None,
    ):
        """Stores the exit code and describes it in the message."""
        super().__init__(f"A worker process {describe_exit(exit_code)}", env_index, pid, step)
        self.exit_code = exit_code

    @property
    def kind(self) -> tuple[str, str]:
        """See `EnvironmentFailure.kind`."""
        return "process", describe_exit(self.exit_code)


class WorkerTimeoutError(EnvironmentFailure, TimeoutError):
    """The process that hosts the environment did not reply in time. It may still be running."""

    kind = ("process", "did not reply in time")


class WorkerMessageError(EnvironmentFailure):
    """The process that hosts the environment sent something that is no reply."""

    kind = ("process", "sent an invalid message")


class WorkerStartError(EnvironmentFailure):
    """A process for environments could not be started, because a limit of the system is reached."""

    kind = ("process", "could not be started")


def _count_others(error: EnvironmentFailure) -> str:
    """Returns one line: "Others that failed: 2 environments (ValueError), 1 process (...)".

    It is empty for none. An environment that failed several times in the same way counts once.
    """
    failed = [
        (other.kind, -number if other.env_index is None else other.env_index)
        for number, other in enumerate(error.others, start=1)
    ]
    this = error.kind, error.env_index
    counts = collections.Counter(one[0] for one in dict.fromkeys(failed) if one != this)
    kinds = [
        f"{count} {noun if count == 1 else _PLURALS[noun]} ({cause})"
        for (noun, cause), count in counts.items()
    ]
    return f"Others that failed: {', '.join(kinds)}" if kinds else ""


_PLURALS = {"environment": "environments", "process": "processes"}


def describe_exit(exit_code: int | None) -> str:
    """Returns how a process has ended, such as "was killed by SIGKILL"."""
    if exit_code is None:
        return "closed its connection"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"


def describe_error(error: BaseException, max_lines: int) -> list[str]:
    """Describes an error for the console.

    Args:
      error: A UsageError, or what interrupted the training.
      max_lines: The largest number of lines, at least 3.

    Returns:
      The message, and as many of the last frames of the environment's own traceback as fit: two
      lines each, its place and its code.
    """
    if not isinstance(error, EnvironmentFailure):
        return [clip(line) for line in str(error).splitlines()[:max_lines]]
    lines = [clip(line) for line in str(error.args[0]).splitlines()]
    lines = [*lines[:2], lines[-1]] if len(lines) > 3 else lines
    lines += [error.note] if error.note else []
    if others := _count_others(error):
        lines.append(clip(others))
    if isinstance(error, EnvironmentRaisedError):
        frames = _frames(error.traceback_text)
        count = (max_lines - len(lines)) // 2
        lines += [line for frame in frames[max(len(frames) - count, 0) :] for line in frame]
    return lines[:max_lines]


def describe_exception(error: BaseException) -> tuple[str, str]:
    """Returns type and message of an exception, and its traceback; whatever its methods do.

    Both are of limited length, and can be encoded as UTF-8.
    """
    name = type(error).__name__
    try:
        message = f"{name}: {_bounded(str(error), MAX_MESSAGE_LENGTH)}"
    except BaseException:
        message = f"{name}, which has no text: its __str__ raised"
    try:
        chunks = traceback.format_exception(error)
    except BaseException:
        chunks = [*traceback.format_tb(error.__traceback__), message]
    text = "".join(_bounded(chunk, MAX_MESSAGE_LENGTH) for chunk in chunks)
    return message, _bounded(text, MAX_TRACEBACK_LENGTH)


def _bounded(text: str, length: int) -> str:
    """Returns a text without its middle if it is too long, and without surrogates."""
    if len(text) > length:
        left_out = f"\n[{len(text) - length:,} characters are left out]\n"
        text = text[: length // 2] + left_out + text[-length // 2 :]
    return str.encode(text, "utf-8", "backslashreplace").decode()


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, clipped, or its type where there is none."""
    return clip((str(error).splitlines() or [type(error).__name__])[0])


def _frames(traceback_text: str) -> list[list[str]]:
    """Returns the frames of a traceback's last exception: place, and code where it is known."""
    frames: list[list[str]] = []
    for line in traceback_text.rpartition("Traceback (most recent call last):")[2].splitlines():
        text = line.strip()
        if text.startswith('File "'):
            frames.append([clip(f"  {text}")])
        elif frames and len(frames[-1]) == 1 and line.startswith("    "):
            frames[-1].append(clip(f"    {text}"))
    return frames


def clip(line: str) -> str:
    """Shortens a line for the console, see `printable`."""
    line = printable(line)
    return line if len(line) <= MAX_LINE_LENGTH else f"{line[: MAX_LINE_LENGTH - 3]}..."
