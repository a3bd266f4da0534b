"""Hosts in a worker process: the parent's side of a worker."""

from __future__ import annotations

import concurrent.futures
import contextlib
import pickle
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import cloudpickle

from agents.environments.registered_specs import dump_registrations
from agents.errors import (
    EnvironmentFailure,
    EnvironmentRaisedError,
    WorkerDiedError,
    WorkerMessageError,
    WorkerTimeoutError,
    describe_exception,
    raised_error,
)
from agents.own_copy import own_copy
from agents.processes.reaper import LAST_SECONDS
from agents.processes.resource_limits import explaining_limits
from agents.processes.spawner import end_workers, start_worker
from agents.shared_memory.channel import (
    BUSY_ENV,
    COMMAND,
    ChannelClosed,
    MessageError,
    check_length,
)
from agents.workers import worker
from agents.workers.environment_handle import EnvironmentHandle

if TYPE_CHECKING:
    from agents.processes.spawner import WorkerProcess
    from agents.types import EnvConstructor, Info, Options, Promise
    from agents.workers.attachment import Attachment
    from agents.workers.description import Description
    from agents.workers.environment_group import RowInfos
    from agents.workers.host import Host

# What a command returns: infos of rows for steps and resets, otherwise the method's result.
Reply: TypeAlias = Any

# Seconds for a process whose connection is closed to exit, so that its exit code is known. Its reaper
# first ends what it has started.
EXIT_SECONDS = 1.0 + LAST_SECONDS


class WorkerHost:
    """Hosts environments in a worker process; a `Host`.

    It keeps what it takes to start the process again: constructors, index and attachment.

    Attributes:
      num_envs: Number of environments.
      descriptions: A description of each environment, once it is ready.
      is_ready: Whether the environments are constructed.
      attachment: The rows of a batch's arrays that belong to it; None before the first `attach`
        and after `close`.
      worker: The process, also after it has ended.
      closed: Whether the process was ended.
      has_failed: Whether constructors failed, or the last request was not replied to in time. The
        environments of the batch that are in the middle of something are not waited for then.
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
        self._constructors, self._index = own_copy(list(constructors)), index
        self._timeout, self._start_timeout = timeout, start_timeout
        self._steps = 0
        self._deadline: float | None = None
        self.closed = True
        self.worker: WorkerProcess
        self._finalizer: weakref.finalize[..., WorkerHost] | None = None
        self.start()

    # Life cycle.

    def start(
        self, force: bool = False, start_process: Callable[[], WorkerProcess] = start_worker
    ) -> None:
        """Starts a process, ending the one before, and sends it the constructors.

        `wait_until_ready` must follow, and where there is an attachment, `attach` with it.

        Args:
          force: Whether to kill the process before, without closing its environments.
          start_process: Returns a worker without environments.

        Raises:
          WorkerStartError: A limit of the system is reached.
        """
        if force and not self.closed:
            self.worker.kill()
        self._end_process()
        with explaining_limits():
            self.worker = start_process()
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = weakref.finalize(self, end_workers, [self.worker])
        self._finalizer.atexit = False  # The spawner ends all workers together then.
        self.closed, self._channel = False, self.worker.channel
        self._sequence = self._replied = 0
        self.is_ready = self.has_failed = False
        with self._ending_on_failure():
            arguments = self._constructors, self._first_row, dump_registrations()
            self._post_method("worker", "start", arguments)

    def wait_until_ready(
        self, while_waiting: Callable[[], object] | None = None, end_on_failure: bool = True
    ) -> None:
        """Waits until the environments are constructed.

        Args:
          while_waiting: Called every few milliseconds; may raise.
          end_on_failure: Whether to end the process if that fails; otherwise `close` must follow.
        """
        if self.is_ready:
            return
        with self._ending_on_failure(end_on_failure):
            self.descriptions = self.receive(while_waiting)
            self.is_ready = True

    def ask_to_close(self) -> None:
        """See `Host.ask_to_close`."""
        if self.worker.is_mine:
            self._channel.close()

    def close(self) -> None:
        """Ends the process, by force if it does not close its environments in time.

        May be called again.
        """
        self._end_process()
        self.attachment = None

    # Requests of a batch.

    def attach(self, attachment: Attachment) -> None:
        """See `Host.attach`."""
        self.attachment = attachment
        layout = attachment.arrays.layout
        arguments = (attachment.start, layout.num_envs, attachment.autoreset, list(layout.info))
        self._post_method("worker", "attach", arguments, (attachment.block.descriptor,))
        self.receive()

    def send_step(self, started: float | None = None) -> None:
        """See `Host.send_step`."""
        self._steps += 1
        self._post(worker.STEP, started)

    def send_reset(self, options: Options | None = None, started: float | None = None) -> None:
        """See `Host.send_reset`."""
        if options is not None:
            self._post_method("group", "reset", (options,), started=started)
        else:
            self._post(worker.RESET, started)

    def receive(self, while_waiting: Callable[[], object] | None = None) -> Reply:
        """Waits for the reply to the last command and returns its content.

        After a time-out it can be called again, with a deadline of its own.

        Args:
          while_waiting: Called every few milliseconds; may raise.

        Raises:
          EnvironmentRaisedError: The environment raised.
          WorkerDiedError: The process is gone.
          WorkerMessageError: The reply can't be unpickled.
          WorkerTimeoutError: There was no reply in time. A late reply is not taken for a later one.
        """
        self._check_open()
        sequence = self._sequence
        if self._deadline is None:
            self._deadline = time.monotonic() + self.timeout
        try:
            status, data = self._channel.wait_reply(sequence, self._deadline, while_waiting)
        except (ChannelClosed, MessageError, TimeoutError) as failure:
            raise self._as_environment_error(failure) from None
        self._replied, self.has_failed = sequence, False
        return self._read_reply(status, data) if data else []

    def _read_reply(self, status: int, data: bytes) -> Reply:
        """Returns the content of a reply, or raises the exceptions that it reports."""
        try:
            content = pickle.loads(data)
        except Exception as failure:
            raise self._as_message_error(failure) from failure
        if status == worker.RESULT and not self._expects_infos:
            return content
        records, parts = content if status == worker.EXCEPTION else ([], content)
        errors = [
            raised_error(summary, text, row, name, self.pid, self._steps)
            for summary, text, row, name in records
        ]
        infos: RowInfos = []
        for row, info, final_info in map(pickle.loads, parts):
            try:
                final = None if final_info is None else self._unpickle_values(row, final_info)
                infos.append((row, self._unpickle_values(row, info), final))
            except EnvironmentRaisedError as error:
                errors.append(error)
        if not errors:
            return infos
        errors[0].others, errors[0].infos = tuple(errors[1:]), infos
        raise errors[0]

    def _unpickle_values(self, row: int, pickled: dict[Any, bytes]) -> Info:
        """Returns an info of a row; the classes of its values may not exist in this process."""
        info = {}
        for key, data in pickled.items():
            try:
                info[key] = pickle.loads(data)
            except Exception as failure:
                message, text = describe_exception(failure)
                name = type(failure).__name__
                raise raised_error(
                    f"An environment's info '{key}' can't be received: {message}",
                    text,
                    row,
                    name,
                    self.pid,
                    self._steps,
                ) from failure
        return info

    @property
    def owes_reply(self) -> bool:
        """See `Host.owes_reply`."""
        return self._replied != self._sequence

    @property
    def is_busy(self) -> bool:
        """See `Host.is_busy`."""
        return not self._channel.has_count(self._sequence) and not self.worker.has_exited()

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

    def _post(self, command: int, started: float | None = None) -> None:
        """Sends a command; its deadline runs from `started`, by default from now."""
        self._deadline = (time.monotonic() if started is None else started) + self.timeout
        self.drain()
        self._sequence += 1
        self._expects_infos = command != worker.METHOD
        self._channel.words[COMMAND] = command
        self._channel.set_count(self._sequence)

    def _post_method(
        self,
        owner: str,
        name: str,
        arguments: tuple[Any, ...],
        descriptors: tuple[int, ...] = (),
        started: float | None = None,
    ) -> None:
        """Calls a method of the `Worker` ("worker") or of its `EnvironmentGroup` ("group")."""
        data = cloudpickle.dumps((owner, name, arguments))
        check_length(len(data))
        self._post(worker.METHOD, started)
        self._expects_infos = name in worker.METHODS_WITH_INFOS
        try:
            self._channel.send(self._sequence, data, self._deadline, descriptors)
        except (ChannelClosed, MessageError, TimeoutError) as failure:
            raise self._as_environment_error(failure) from None

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("This worker process is closed; make a new one.")

    @contextlib.contextmanager
    def _ending_on_failure(self, ends: bool = True) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.has_failed = True
            if ends:
                self._end_process()
            raise

    def _end_process(self) -> None:
        if not self.closed:
            self.closed = True
            end_workers([self.worker], hurry=self.has_failed)

    @property
    def timeout(self) -> float:
        """Seconds that the current request may take."""
        return self._timeout if self.is_ready else self._start_timeout

    # Errors.

    def _as_environment_error(
        self, failure: ChannelClosed | MessageError | TimeoutError
    ) -> EnvironmentFailure:
        """Translates a channel failure into a typed error."""
        if isinstance(failure, MessageError):
            return self._as_message_error(failure)
        if isinstance(failure, TimeoutError):
            self._deadline, self.has_failed = None, True
            message = f"A worker process did not reply within {self.timeout:g} seconds"
            return WorkerTimeoutError(message, self.busy_row, self.pid, self._steps)
        exit_code = self.worker.wait(EXIT_SECONDS)
        return WorkerDiedError(exit_code, self.busy_row, self.pid, self._steps)

    def _as_message_error(self, failure: Exception) -> WorkerMessageError:
        """Translates a failure to read a reply into a typed error."""
        message = f"A worker process sent an invalid message: {failure}"
        return WorkerMessageError(message, self.busy_row, self.pid, self._steps)

    @property
    def pid(self) -> int:
        """See `Host.pid`."""
        return self.worker.pid

    @property
    def busy_row(self) -> int | None:
        """See `Host.busy_row`."""
        env = 0 if self.num_envs == 1 else self._channel.words[BUSY_ENV]
        return self._first_row + env if 0 <= env < self.num_envs else None

    @property
    def _first_row(self) -> int:
        return self._index if self.attachment is None else self.attachment.start


def close_hosts(hosts: Sequence[Host]) -> None:
    """Closes hosts together: what hangs is ended by force after one period of grace for all."""
    workers = [host for host in hosts if isinstance(host, WorkerHost)]
    with contextlib.ExitStack() as stack:  # Closes all of them, even if one raises.
        for host in reversed(hosts):
            stack.callback(host.close)
        for host in hosts:
            host.ask_to_close()
        hurry = any(host.has_failed for host in workers)
        end_workers([host.worker for host in workers], hurry=hurry)
