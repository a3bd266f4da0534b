"""A worker process: a lean interpreter that hosts environments for its parent.

It imports NumPy, Gymnasium and what the environments need, but not TensorFlow, unless they do.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import socket
import sys
import traceback
from typing import TYPE_CHECKING

import cloudpickle

from agents.errors import EnvironmentRaisedError
from agents.shared_memory.channel import (
    BUSY_ENV,
    COMMAND,
    STATUS,
    Channel,
    ChannelClosed,
    map_words,
)
from agents.shared_memory.shared_arrays import BatchArrays, Layout
from agents.shared_memory.shared_block import map_file
from agents.workers.environment_group import EnvironmentGroup

if TYPE_CHECKING:
    from agents.types import EnvConstructor
    from agents.workers.description import Description

# Commands of the parent: STEP and RESET need no message; that of METHOD holds "worker" or "group",
# the name of one of its methods, and a tuple of arguments.
STEP, RESET, METHOD = range(3)

# Status of a reply: DONE has no message; that of RESULT holds what the method returned, that of
# EXCEPTION the summary, traceback, environment index and type name of an `EnvironmentRaisedError`.
DONE, RESULT, EXCEPTION = range(3)

_PR_SET_PDEATHSIG = 1


class Worker:
    """Executes the parent's commands.

    Attributes:
      group: The environments, from `start` on.
    """

    group: EnvironmentGroup

    def __init__(self, channel: Channel):
        """Stores the worker's side of the channel."""
        self._channel = channel

    def start(self, constructors: list[EnvConstructor], start: int) -> list[Description]:
        """Constructs the environments and returns their descriptions.

        Args:
          constructors: One per environment.
          start: Index of the first environment in its batch.
        """
        self.group = EnvironmentGroup(
            constructors, start, busy=self._channel.words[BUSY_ENV : BUSY_ENV + 1]
        )
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
        layout = Layout(num_envs, self.group.observation_space, self.group.action_space, info_keys)
        self.group.attach(BatchArrays(layout, map_file(descriptor, layout.size)), start, autoreset)
        os.close(descriptor)

    def serve(self) -> None:
        """Executes commands until the parent closes the channel, which raises `ChannelClosed`."""
        channel = self._channel
        for sequence in itertools.count(1):
            channel.wait_count(sequence, timeout=None)
            status, data = self._execute(channel.words[COMMAND], sequence)
            channel.words[STATUS] = status
            channel.words[BUSY_ENV] = -1
            channel.set_count(sequence)
            if status != DONE:
                channel.send(sequence, data, timeout=None)

    def close(self) -> None:
        """Closes the environments, if there are any yet."""
        if hasattr(self, "group"):
            self.group.close()

    def _execute(self, command: int, sequence: int) -> tuple[int, bytes]:
        """Returns the status and the message of the reply."""
        try:
            if command == STEP:
                content = self.group.step()
            elif command == RESET:
                content = self.group.reset()
            else:
                data, descriptors = self._channel.receive(sequence, timeout=None)
                owner, name, arguments = cloudpickle.loads(data)
                content = getattr(self if owner == "worker" else self.group, name)(
                    *descriptors, *arguments
                )
            if command != METHOD and not content:  # No infos.
                return DONE, b""
            return RESULT, cloudpickle.dumps(content)
        except EnvironmentRaisedError as error:
            return EXCEPTION, cloudpickle.dumps(
                (error.summary, error.traceback_text, error.env_index, error.type_name)
            )
        except ChannelClosed:
            raise
        except Exception as error:  # Usually a result of the environment that can't be pickled.
            summary = f"A worker could not reply: {type(error).__name__}: {error}"
            return EXCEPTION, cloudpickle.dumps(
                (summary, traceback.format_exc(), None, type(error).__name__)
            )


def main(parent: int, words: int, doorbell: int, messages: int) -> None:
    """Runs a worker.

    Args:
      parent: Process id of the parent.
      words: Descriptor of the channel's shared words.
      doorbell: Descriptor of the worker's doorbell socket.
      messages: Descriptor of the worker's message socket.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return  # The parent died before the signal was set.
    channel = Channel(
        map_words(words),
        socket.socket(fileno=doorbell),
        socket.socket(fileno=messages),
        parent=False,
    )
    worker = Worker(channel)
    try:
        worker.serve()
    except ChannelClosed:
        pass  # The parent closed it, or is gone.
    finally:
        worker.close()
