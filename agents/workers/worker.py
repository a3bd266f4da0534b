"""A worker process: a lean interpreter that hosts environments for its parent.

It imports NumPy, Gymnasium and what the environments need, but not TensorFlow, unless they do.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pickle
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cloudpickle

from agents.environments.registered_specs import load_registrations
from agents.errors import (
    EnvironmentRaisedError,
    InvalidDataError,
    describe_exception,
    show_warning,
)
from agents.workers import environment_group
from agents.workers.channel import (
    BUSY_ENV,
    COMMAND,
    MAX_MESSAGE_BYTES,
    WORKER_PID,
    Channel,
    ChannelClosed,
    MessageError,
    check_length,
    map_words,
)
from agents.workers.environment_group import EnvironmentGroup, ForkedProcessError
from agents.workers.shared_arrays import BatchArrays, Layout

if TYPE_CHECKING:
    from agents.types import EnvConstructor, Info
    from agents.workers.environment_group import Description

# Commands of the parent: STEP and RESET need no message; that of METHOD holds "worker" or "group",
# the name of one of its methods, and a tuple of arguments.
STEP, RESET, METHOD = range(3)

# Status of a reply: DONE has no message; that of RESULT holds what a method returned, that of INFOS
# the infos of rows, that of EXCEPTION the `EnvironmentRaisedError.records` of failures, and the
# infos of other environments.
DONE, RESULT, INFOS, EXCEPTION = range(4)

# Of the infos of all environments; the rest of a message is for exceptions.
MAX_INFOS_BYTES = MAX_MESSAGE_BYTES - (1 << 24)

# Of the text that stands for a value that can't be pickled.
MAX_REPR_LENGTH = 200


class Worker:
    """Executes the parent's commands.

    Attributes:
      group: The environments, from `start` on.
    """

    group: EnvironmentGroup

    def __init__(self, channel: Channel):
        """Stores the worker's side of the channel."""
        self._channel, self._start, self._sequence = channel, 0, 0

    def start(
        self, constructors: list[EnvConstructor], start: int, registrations: list[bytes]
    ) -> list[Description]:
        """Constructs the environments and returns their descriptions.

        Args:
          constructors: One per environment.
          start: Index of the first environment in its batch.
          registrations: Environments that the parent has registered.
        """
        self._start = start
        load_registrations(registrations)
        busy = self._channel.words[BUSY_ENV : BUSY_ENV + 1]
        self.group = EnvironmentGroup(constructors, start, busy, self._channel.busy_since)
        return self.group.describe()

    def attach(
        self, descriptor: int, start: int, num_envs: int, autoreset: bool, info_keys: list[str]
    ) -> None:
        """Maps a batch's block and assigns rows of its arrays to the environments.

        Args:
          descriptor: File of the block; it is closed.
          start: Row of the first environment.
          num_envs: Number of environments B of the batch.
          autoreset: Whether to reset an environment in the step that ends its episode.
          info_keys: Keys of numbers in the infos, for the layout.
        """
        self._start = start
        layout = Layout(num_envs, self.group.observation_space, self.group.action_space, info_keys)
        arrays = BatchArrays(layout, descriptor)
        arrays.close()
        self.group.attach(arrays, start, autoreset)

    def serve(self) -> None:
        """Executes commands until the parent closes the channel, which raises `ChannelClosed`."""
        channel = self._channel
        for sequence in itertools.count(1):
            channel.wait_count(sequence, deadline=None)
            self._sequence = sequence
            status, data = self._execute(channel.words[COMMAND])
            if environment_group.fork_depth:
                # A process that an environment forked left its call: it is no worker.
                if status == EXCEPTION:
                    sys.stderr.write(pickle.loads(data)[0][0][1])
                os._exit(1)
            channel.words[BUSY_ENV] = -1
            channel.reply(sequence, status, data)

    def watch_files(self) -> None:
        """Ends this process as soon as an environment has closed or replaced its files.

        The environment is still in use when the system signals that an end of a pipe is gone.
        """
        pipe = os.pipe()
        inode = os.fstat(pipe[0]).st_ino

        def check(signum: int, frame: object) -> None:
            with contextlib.suppress(OSError):
                if all(os.fstat(end).st_ino == inode for end in pipe):
                    return
            summary = "An environment closed or replaced files of its worker process, which ended"
            record = (summary, "", self._busy_row, InvalidDataError.__name__)
            with contextlib.suppress(OSError):  # The reply lies in shared memory.
                self._channel.reply(self._sequence, EXCEPTION, dumps(([record], [])))
            os._exit(1)

        signal.signal(signal.SIGIO, check)
        for end in pipe:
            fcntl.fcntl(end, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(end, fcntl.F_SETFL, os.O_ASYNC)

    def close(self) -> None:
        """Closes the environments, if there are any yet."""
        if hasattr(self, "group"):
            self.group.close()

    def _execute(self, command: int) -> tuple[int, bytes]:
        """Returns the status and the message of the reply."""
        try:
            if command == METHOD:
                return self._call_method()
            return self._reply_infos(self.group.step() if command == STEP else self.group.reset())
        except EnvironmentRaisedError as error:
            return self._reply_infos(error.infos, error)
        except (ChannelClosed, ForkedProcessError):
            raise
        except BaseException as error:  # Usually a result of the environment that can't be sent.
            return EXCEPTION, dumps(([self._record("A worker could not reply", error)], []))

    def _call_method(self) -> tuple[int, bytes]:
        """Calls the method that the parent's message names; returns its reply."""
        data, descriptors = self._channel.receive(self._sequence, deadline=None)
        owner, name, arguments = cloudpickle.loads(data)
        result = getattr(self if owner == "worker" else self.group, name)(*descriptors, *arguments)
        if name in ("reset", "restart"):  # They return infos of rows, as steps do.
            return self._reply_infos(result)
        data = dumps(result)
        check_length(len(data))
        return RESULT, data

    def _reply_infos(
        self,
        infos: Sequence[tuple[int, Info, Info | None]],
        error: EnvironmentRaisedError | None = None,
    ) -> tuple[int, bytes]:
        """Returns a reply with infos; an environment whose infos are too long has failed."""
        if not infos and error is None:
            return DONE, b""
        parts: dict[int, bytes] = {}
        records = error.records() if error else []
        for row, *content in infos:
            self._channel.words[BUSY_ENV] = row - self._start
            parts[row] = dumps((row, *map(_pickle_values, content)))
        while sum(map(len, parts.values())) > MAX_INFOS_BYTES:
            row = max(parts, key=lambda row: len(parts[row]))
            self._channel.words[BUSY_ENV] = row - self._start
            size = f"{len(parts.pop(row)):,} bytes; expected at most {MAX_INFOS_BYTES:,}"
            records.append(self._record("An environment's info can't be sent", MessageError(size)))
        if not records:
            return INFOS, dumps(list(parts.values()))
        records.sort(key=lambda record: -1 if record[2] is None else record[2])
        return EXCEPTION, dumps((records, list(parts.values())))

    def _record(self, what: str, error: BaseException) -> tuple[str, str, int | None, str]:
        """Returns the record of an exception while a reply was made, see `EXCEPTION`."""
        message, traceback_text = describe_exception(error)
        return f"{what}: {message}", traceback_text, self._busy_row, type(error).__name__

    @property
    def _busy_row(self) -> int | None:
        """Row of the environment in use."""
        env = self._channel.words[BUSY_ENV]
        return self._start + env if env >= 0 else None


def dumps(value: Any) -> bytes:
    """Pickles a value, by cloudpickle where its types can't be imported by name."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:
        data: bytes = cloudpickle.dumps(value)
        return data


def _pickle_values(info: Info | None) -> dict[Any, bytes] | None:
    """Pickles each value of an info, or the start of its `repr` if that fails."""
    if info is None:
        return None
    pickled = {}
    for key, value in info.items():
        try:
            pickled[key] = dumps(value)
        except BaseException:  # Of the environment's own classes.
            pickled[key] = dumps(_describe(value))
    return pickled


def _describe(value: Any) -> str:
    try:
        return str.__getitem__(repr(value), slice(MAX_REPR_LENGTH))
    except BaseException:
        return f"<{type(value).__qualname__}>"


def main(words: int, doorbell: int, messages: int) -> None:
    """Runs a worker.

    Args:
      words: Descriptor of the channel's shared words.
      doorbell: Descriptor of the worker's doorbell socket.
      messages: Descriptor of the worker's message socket.
    """
    warnings.showwarning = show_warning
    bell, mail = socket.socket(fileno=doorbell), socket.socket(fileno=messages)
    channel = Channel(map_words(words), bell, mail, parent=False)
    channel.words[WORKER_PID] = os.getpid()
    worker = Worker(channel)
    worker.watch_files()
    try:
        worker.serve()
    except ChannelClosed:
        pass  # The parent closed it, or is gone.
    finally:
        if environment_group.fork_depth:
            # A process that an environment forked: the environments are not its own.
            traceback.print_exc()
            os._exit(1)
        worker.close()
