"""A worker process: a lean interpreter that hosts environments for its parent.

It imports NumPy, Gymnasium and what the environments need, but not TensorFlow, unless they do.
"""

from __future__ import annotations

import itertools
import os
import socket
import sys
import traceback
import warnings
from typing import TYPE_CHECKING

import cloudpickle

from agents.command_line.shown_warnings import show_warning
from agents.environments.registered_specs import load_registrations
from agents.errors import EnvironmentRaisedError
from agents.processes.process_group import release_group
from agents.shared_memory.channel import (
    BUSY_ENV,
    COMMAND,
    Channel,
    ChannelClosed,
    check_length,
    map_words,
)
from agents.shared_memory.plain_messages import dumps, loads
from agents.shared_memory.shared_arrays import BatchArrays, Layout
from agents.shared_memory.shared_block import map_file
from agents.workers import environment_group
from agents.workers.description import encode
from agents.workers.environment_group import (
    EnvironmentGroup,
    ForkedProcessError,
    describe_exception,
)

if TYPE_CHECKING:
    from agents.types import EnvConstructor, PlainData

# Commands of the parent: STEP and RESET need no message; that of METHOD holds "worker" or "group",
# the name of one of its methods, and a tuple of arguments.
STEP, RESET, METHOD = range(3)

# Status of a reply: DONE has no message; that of RESULT holds what the method returned, that of
# EXCEPTION the summary, traceback, environment index and type name of an `EnvironmentRaisedError`.
# Both are plain data: the parent executes nothing that a worker sends.
DONE, RESULT, EXCEPTION = range(3)


class Worker:
    """Executes the parent's commands.

    Attributes:
      group: The environments, from `start` on.
    """

    group: EnvironmentGroup

    def __init__(self, channel: Channel):
        """Stores the worker's side of the channel."""
        self._channel = channel

    def start(
        self, constructors: list[EnvConstructor], start: int, registrations: list[bytes]
    ) -> list[PlainData]:
        """Constructs the environments and returns their descriptions, encoded.

        Args:
          constructors: One per environment.
          start: Index of the first environment in its batch.
          registrations: Environments that the parent has registered.
        """
        load_registrations(registrations)
        self.group = EnvironmentGroup(
            constructors, start, busy=self._channel.words[BUSY_ENV : BUSY_ENV + 1]
        )
        return [encode(description) for description in self.group.describe()]

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
        layout = Layout(num_envs, self.group.observation_space, self.group.action_space, info_keys)
        self.group.attach(BatchArrays(layout, map_file(descriptor, layout.size)), start, autoreset)
        os.close(descriptor)

    def serve(self) -> None:
        """Executes commands until the parent closes the channel, which raises `ChannelClosed`."""
        channel = self._channel
        for sequence in itertools.count(1):
            channel.wait_count(sequence, deadline=None)
            status, data = self._execute(channel.words[COMMAND], sequence)
            if environment_group.fork_depth:
                # A process that an environment forked left its call: it is no worker.
                if status == EXCEPTION:
                    sys.stderr.write(loads(data)[0][0][1])
                os._exit(1)
            channel.words[BUSY_ENV] = -1
            channel.reply(sequence, status, data)

    def close(self) -> None:
        """Closes the environments, if there are any yet."""
        if hasattr(self, "group"):
            self.group.close()

    def _execute(self, command: int, sequence: int) -> tuple[int, bytes]:
        """Returns the status and the message of the reply."""
        try:
            if command == METHOD:
                return RESULT, self._call_method(sequence)
            infos = self.group.step() if command == STEP else self.group.reset()
            return (RESULT, _dump(infos, describe=True)) if infos else (DONE, b"")
        except EnvironmentRaisedError as error:
            return EXCEPTION, _dump((error.records(), error.infos), describe=True)
        except (ChannelClosed, ForkedProcessError):
            raise
        except BaseException as error:  # Usually a result of the environment that can't be sent.
            summary = f"A worker could not reply: {describe_exception(error)}"
            record = (summary, traceback.format_exc(), None, type(error).__name__)
            return EXCEPTION, _dump(([record], []))

    def _call_method(self, sequence: int) -> bytes:
        """Calls the method that the parent's message names; returns the result's message."""
        data, descriptors = self._channel.receive(sequence, deadline=None)
        owner, name, arguments = cloudpickle.loads(data)
        result = getattr(self if owner == "worker" else self.group, name)(*descriptors, *arguments)
        return _dump(result, describe=name == "reset")


def _dump(content: PlainData, describe: bool = False) -> bytes:
    """Returns the message of plain data; raises MessageError if it is too long."""
    data = dumps(content, describe)
    check_length(len(data))
    return data


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
    worker = Worker(channel)
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
    release_group()
