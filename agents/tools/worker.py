"""The child side of `ExternalProcess`: a lean interpreter that hosts environments and takes turns with its parent.

It imports numpy, gymnasium and what the environments need; never TensorFlow, unless they do.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import socket
import sys
import traceback
from typing import Any

import cloudpickle

from agents.tools.channel import BUSY_ENV, COMMAND, STATUS, Channel, ChannelClosed, map_line
from agents.tools.environment_group import EnvironmentGroup
from agents.tools.errors import EnvironmentRaisedError
from agents.tools.shared_arrays import BatchArrays, Layout, map_block

# What the parent can ask for: STEP and RESET need no message; METHOD carries a method's name and arguments.
STEP, RESET, METHOD = range(3)
# How a turn ended: whether a message follows, and which. EXCEPTION carries what `EnvironmentRaisedError` is made of:
# message, traceback, the environment's index, and the name of the exception's type.
DONE, RESULT, EXCEPTION = range(3)

_PR_SET_PDEATHSIG = 1


class Worker:
    """Takes turns with the parent. `start` and `attach` can be asked for by name, as can the group's methods."""

    def __init__(self, channel: Channel):
        """Takes this side's end of the channel; the environments come with `start`."""
        self._channel = channel
        self.group: Any = None

    def start(self, constructors: list[Any], start: int) -> list[dict[str, Any]]:
        """Makes the environments, of which the first is number `start` of a batch, and describes them."""
        self.group = EnvironmentGroup(constructors, start, busy=self._channel.line[BUSY_ENV : BUSY_ENV + 1])
        return self.group.describe()

    def attach(self, descriptor: int, start: int, num_envs: int, autoreset: bool, info_keys: list[str]) -> None:
        """Maps a batch's block of arrays and takes over its rows from `start` on."""
        layout = Layout(num_envs, self.group.observation_space, self.group.action_space, info_keys)
        self.group.attach(BatchArrays(layout, map_block(descriptor, layout.size)), start, autoreset)
        os.close(descriptor)

    def serve(self) -> None:
        """Takes turns until the parent closes the channel, which raises `ChannelClosed`."""
        channel = self._channel
        for sequence in itertools.count(1):
            channel.wait_count(sequence, timeout=None)
            status, data = self._take_turn(channel.line[COMMAND], sequence)
            channel.line[STATUS] = status
            channel.line[BUSY_ENV] = -1
            channel.raise_count(sequence)
            if status != DONE:
                channel.send(sequence, data, timeout=None)

    def _take_turn(self, command: int, sequence: int) -> tuple[int, bytes]:
        try:
            if command == STEP:
                content = self.group.step()
            elif command == RESET:
                content = self.group.reset()
            else:
                data, descriptors = self._channel.receive(sequence, timeout=None)
                owner, name, arguments = cloudpickle.loads(data)
                content = getattr(self if owner == "worker" else self.group, name)(*descriptors, *arguments)
            if command != METHOD and not content:  # No infos.
                return DONE, b""
            return RESULT, cloudpickle.dumps(content)
        except EnvironmentRaisedError as error:
            return EXCEPTION, cloudpickle.dumps((error.summary, error.traceback_text, error.env_index, error.type_name))
        except ChannelClosed:
            raise
        except Exception as error:  # Most often something that the environment returned and that can't be pickled.
            summary = f"A worker could not answer: {type(error).__name__}: {error}"
            return EXCEPTION, cloudpickle.dumps((summary, traceback.format_exc(), None, type(error).__name__))


def main(parent: int, line: int, bell: int, messages: int) -> None:
    """Runs a worker. The arguments are the parent's process id and the descriptors of the channel."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return  # The parent died before it could be watched.
    channel = Channel(map_line(line), socket.socket(fileno=bell), socket.socket(fileno=messages), parent=False)
    worker = Worker(channel)
    try:
        worker.serve()
    except ChannelClosed:
        pass  # The parent closed it, or is gone.
    finally:
        if worker.group:
            worker.group.close()
