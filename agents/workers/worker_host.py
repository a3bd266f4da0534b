"""Hosts in a worker process: the parent's side of a worker."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import subprocess
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import cloudpickle

from agents.errors import (
    EnvironmentFailure,
    EnvironmentRaisedError,
    WorkerDiedError,
    WorkerTimeoutError,
)
from agents.shared_memory.channel import BUSY_ENV, COMMAND, STATUS, ChannelClosed
from agents.workers import worker
from agents.workers.environment_handle import EnvironmentHandle
from agents.workers.spawner import end_worker, start_worker

if TYPE_CHECKING:
    from agents.types import EnvConstructor, Options, Promise
    from agents.workers.attachment import Attachment
    from agents.workers.description import Description

# What a command returns: infos of rows for steps and resets, otherwise the method's result.
Reply: TypeAlias = Any


class WorkerHost:
    """Hosts environments in a worker process; a `Host`.

    It keeps what it takes to start the process again: constructors, index and attachment.

    Attributes:
      pid: Id of the process.
      num_envs: Number of environments.
      descriptions: A description of each environment, once it is ready.
      is_ready: Whether the environments are constructed.
      attachment: The rows of a batch's arrays that belong to it; None before the first `attach`
        and after `close`.
    """

    def __init__(
        self,
        constructors: Sequence[EnvConstructor],
        timeout: float = 60.0,
        start_timeout: float = 120.0,
        index: int = 0,
    ):
        """Starts the process; `wait_until_ready` must follow.

        Args:
          constructors: One per environment; anything that cloudpickle takes.
          timeout: Seconds that a step, reset or call of the whole process may take.
          start_timeout: Seconds until the environments are constructed.
          index: Index of the first environment in its batch, for errors of constructors.
        """
        self.num_envs = len(constructors)
        self.descriptions: list[Description] = []
        self.attachment: Attachment | None = None
        self._constructors, self._index = list(constructors), index
        self._timeout, self._start_timeout = timeout, start_timeout
        self._steps = 0
        self._finalizer: weakref.finalize[..., WorkerHost] | None = None
        self.start()

    # Life cycle.

    def start(self) -> None:
        """Starts a process, ending the one before, and sends it the constructors.

        `wait_until_ready` must follow, and where there is an attachment, `attach` with it.
        """
        self._end_process()
        self._process, self._channel = start_worker()
        self._creator = os.getpid()  # A fork has copies of these objects, but no worker.
        self._finalizer = weakref.finalize(
            self, end_worker, self._process, self._channel, self._creator
        )
        self.pid = self._process.pid
        self._sequence = self._replied = 0
        self.is_ready = False
        with self._ending_on_failure():
            self._post_method("worker", "start", (self._constructors, self._first_row))

    def wait_until_ready(self) -> None:
        """Waits until the environments are constructed; ends the process if that fails."""
        if self.is_ready:
            return
        with self._ending_on_failure():
            self.descriptions = self.receive()
            self.is_ready = True

    def ask_to_close(self) -> None:
        """See `Host.ask_to_close`."""
        if os.getpid() == self._creator:
            self._channel.close()

    def close(self) -> None:
        """Ends the process, by force if it does not close its environments in time.

        May be called again.
        """
        self._end_process()
        self.attachment = None

    @property
    def closed(self) -> bool:
        """Whether the process was ended."""
        return self._finalizer is None or not self._finalizer.alive

    # Requests of a batch.

    def attach(self, attachment: Attachment) -> None:
        """See `Host.attach`."""
        self.attachment = attachment
        layout = attachment.arrays.layout
        arguments = (attachment.start, layout.num_envs, attachment.autoreset, list(layout.info))
        self._post_method("worker", "attach", arguments, (attachment.block.descriptor,))
        self.receive()

    def send_step(self) -> None:
        """See `Host.send_step`."""
        self._steps += 1
        self._post(worker.STEP)

    def send_reset(self, options: Options | None = None) -> None:
        """See `Host.send_reset`."""
        if options:
            self._post_method("group", "reset", (options,))
        else:
            self._post(worker.RESET)

    def receive(self) -> Reply:
        """Waits for the reply to the last command and returns its content.

        Raises:
          EnvironmentRaisedError: The environment raised.
          WorkerDiedError: The process is gone.
          WorkerTimeoutError: There was no reply in time. A late reply is not taken for a later one.
        """
        self._check_open()
        channel, sequence, data = self._channel, self._sequence, b""
        try:
            channel.wait_count(sequence, self._reply_timeout)
            status = channel.words[STATUS]
            if status != worker.DONE:
                data = channel.receive(sequence, self._reply_timeout)[0]
        except (ChannelClosed, TimeoutError) as failure:
            raise self._as_environment_error(failure) from None
        self._replied = sequence
        if not data:
            return []
        content = cloudpickle.loads(data)
        if status == worker.EXCEPTION:
            summary, traceback_text, env, type_name = content
            raise EnvironmentRaisedError(
                summary, traceback_text, env, type_name, self.pid, self._steps
            )
        return content

    def ask(self, method: str, index: int, *arguments: Any, blocking: bool = True) -> Reply:
        """See `Host.ask`; if not blocking, returns a promise of the result."""
        self._post_method("group", method, (index, *arguments))
        promise = self.promise(self.receive)
        return promise() if blocking else promise

    def __getitem__(self, index: int) -> EnvironmentHandle:
        return EnvironmentHandle(self, range(self.num_envs)[index])

    # The order of commands and replies.

    def drain(self) -> None:
        """Receives and discards an unread reply.

        Before the arrays change, and so that it is not taken for the next reply.

        Raises:
          RuntimeError: The process is closed.
        """
        self._check_open()
        if self._replied != self._sequence:
            with contextlib.suppress(EnvironmentRaisedError):  # Nobody waits for the result.
                self.receive()

    def promise(self, result: Callable[[], Reply]) -> Promise:
        """Returns a function that waits for the reply to the last command; it can be called again.

        Args:
          result: Receives the reply and returns what the promise is to return.
        """
        sequence = self._sequence
        outcome: concurrent.futures.Future[Reply] = concurrent.futures.Future()

        def wait() -> Reply:
            if outcome.done():
                return outcome.result()
            if sequence != self._sequence:
                raise RuntimeError(
                    "The result is lost: the process got another command before the promise was called."
                )
            try:
                outcome.set_result(result())
            except Exception as error:
                if self._replied != sequence:
                    raise  # There is no reply yet; the promise can be called again.
                outcome.set_exception(error)
            return outcome.result()

        return wait

    def _post(self, command: int) -> None:
        self.drain()
        self._sequence += 1
        self._channel.words[COMMAND] = command
        self._channel.set_count(self._sequence)

    def _post_method(
        self, owner: str, name: str, arguments: tuple[Any, ...], descriptors: tuple[int, ...] = ()
    ) -> None:
        """Calls a method of the `Worker` ("worker") or of its `EnvironmentGroup` ("group")."""
        self.drain()
        data = cloudpickle.dumps((owner, name, arguments))
        self._post(worker.METHOD)
        try:
            self._channel.send(self._sequence, data, self._reply_timeout, descriptors)
        except (ChannelClosed, TimeoutError) as failure:
            raise self._as_environment_error(failure) from None

    def _check_open(self) -> None:
        if self._finalizer is None or not self._finalizer.alive:
            raise RuntimeError("This worker process is closed; make a new one.")

    @contextlib.contextmanager
    def _ending_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._end_process()
            raise

    def _end_process(self) -> None:
        if self._finalizer is not None:
            self._finalizer()

    @property
    def _reply_timeout(self) -> float:
        return self._timeout if self.is_ready else self._start_timeout

    # Errors.

    def _as_environment_error(self, failure: ChannelClosed | TimeoutError) -> EnvironmentFailure:
        """Translates a channel failure into a typed error."""
        if isinstance(failure, TimeoutError):
            message = f"A worker process did not reply within {self._reply_timeout:g} seconds"
            return WorkerTimeoutError(message, self._busy_row, self.pid, self._steps)
        try:
            exit_code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            exit_code = None
        return WorkerDiedError(exit_code, self._busy_row, self.pid, self._steps)

    @property
    def _busy_row(self) -> int | None:
        """Index in the batch of the environment in use; None if it is unknown which."""
        env = 0 if self.num_envs == 1 else self._channel.words[BUSY_ENV]
        return None if env < 0 else self._first_row + env

    @property
    def _first_row(self) -> int:
        return self._index if self.attachment is None else self.attachment.start
