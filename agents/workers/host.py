"""Hosts: environments of a batch in this process, or in a worker process.

A request (`send_step` or `send_reset`) reads the host's rows of the batch's arrays. Exactly one
`receive` must follow; by then the results are in the rows. A batch may send requests to all of its
hosts before it receives from the first. Every method but `close` may raise `EnvironmentFailure`;
afterwards the host still takes requests, and fails again if its process is gone. The time limit of a
request runs from `started`, a time of `time.monotonic`, by default from when it is sent; in a worker
it runs again for each of the environments, and for a reset after a step.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import os
import pickle
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

import cloudpickle

from agents import stop_signals
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
from agents.workers import worker
from agents.workers.channel import (
    BUSY_ENV,
    COMMAND,
    ChannelClosed,
    MessageError,
    check_length,
)
from agents.workers.environment_group import Description, EnvironmentGroup
from agents.workers.reaper import LAST_SECONDS
from agents.workers.spawner import end_workers, explaining_limits, start_worker

if TYPE_CHECKING:
    from agents.types import Env, EnvConstructor, Info, Options, Promise
    from agents.workers.environment_group import RowInfos
    from agents.workers.shared_arrays import BatchArrays
    from agents.workers.spawner import WorkerProcess

Host: TypeAlias = "LocalHost | WorkerHost"

# What a command returns: infos of rows for steps and resets, otherwise the method's result.
Reply: TypeAlias = Any

# Seconds for a process whose connection is closed to exit, so that its exit code is known. Its reaper
# first ends its descendants.
EXIT_SECONDS = 1.0 + LAST_SECONDS


class LocalHost:
    """Hosts environments in this process; they run when a request is sent.

    Attributes:
      num_envs: Number of environments.
      rows: Their rows in the batch, a part of [0, B).
      descriptions: A description of each environment.
      is_busy: False, as the reply to a request is there when it was sent.
      busy_row: None, likewise.
      timeout: Infinity: what runs in this process can't be stopped.
      deadline: Likewise.
      since: 0, as it is never busy.
    """

    is_busy = False
    busy_row = None
    timeout = deadline = math.inf
    since = 0.0

    def __init__(self, constructor: EnvConstructor | Sequence[EnvConstructor], index: int = 0):
        """Constructs the environments.

        Args:
          constructor: Returns an environment; or a sequence of such functions.
          index: Index of the (first) environment in its batch, for errors.

        Raises:
          EnvironmentRaisedError: A constructor raised.
        """
        constructors = [constructor] if callable(constructor) else constructor
        self._group = EnvironmentGroup(constructors, index)
        self.descriptions = self._group.describe()
        self.num_envs, self.pid = len(self.descriptions), os.getpid()
        self.rows = range(index, index + self.num_envs)

    def attach(self, arrays: BatchArrays, start: int, autoreset: bool = True) -> None:
        """See `EnvironmentGroup.attach`."""
        self.rows = range(start, start + self.num_envs)
        self._group.attach(arrays, start, autoreset)

    def send_step(self, started: float | None = None) -> None:
        """Steps all environments with the arrays' actions, leaves [B, ...]."""
        self._infos = self._group.step()

    def send_reset(self, options: Options | None = None, started: float | None = None) -> None:
        """Resets by the arrays' mask, bool [B], with their seeds, int64 [B]."""
        self._infos = self._group.reset(options)

    def receive(self, while_waiting: Callable[[], object] | None = None) -> RowInfos:
        """Returns the infos of rows that have any."""
        return self._infos

    def ask(self, method: str, index: int, *arguments: Any) -> Any:
        """Calls `EnvironmentGroup`'s `call`, `get`, `set` or `restart` for one environment."""
        return getattr(self._group, method)(index, *own_copy(arguments))

    def __getitem__(self, index: int) -> Env:
        return self._group.envs[index]

    def close(self) -> None:
        """Closes the environments. May be called again."""
        self._group.close()


class WorkerHost:
    """Hosts environments in a worker process.

    Keeps constructors, arrays and rows, to start the process again.

    Attributes:
      num_envs: Number of environments.
      descriptions: A description of each environment, once it is ready.
      is_ready: Whether the environments are constructed.
      arrays: The arrays of the batch; None before the first `attach` and after `close`.
      rows: Rows of its environments in the batch, a part of [0, B).
      worker: The process, also after it has ended.
      closed: Whether the process was ended.
      has_failed: Whether constructors failed, or the last request was not replied to in time. If
        so, closing the batch does not wait for environments that are still stepping.
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
          timeout: Seconds that a step, a reset or a call of one environment may take.
          start_timeout: Seconds until the first environment is under construction, and that each
            constructor may take.
          index: Index of the first environment in its batch, for errors of constructors.
        """
        self.num_envs = len(constructors)
        self.descriptions: list[Description] = []
        self.arrays: BatchArrays | None = None
        self.rows, self._autoreset = range(index, index + len(constructors)), True
        self._constructors = own_copy(list(constructors))
        self._timeout, self._start_timeout = timeout, start_timeout
        self._steps, self._constructs = 0, False
        self._started: float | None = None
        self.closed = True
        self.worker: WorkerProcess
        self._finalizer: weakref.finalize[..., WorkerHost] | None = None
        self.start()

    # Life cycle.

    def start(self, start_process: Callable[[], WorkerProcess] = start_worker) -> None:
        """Kills the process before, starts another and sends it the constructors.

        `wait_until_ready` must follow.

        Args:
          start_process: Returns a worker without environments.

        Raises:
          WorkerStartError: A limit of the system is reached.
        """
        if not self.closed:
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
            arguments = self._constructors, self.rows.start, dump_registrations()
            self._post_method("worker", "start", arguments)

    def wait_until_ready(
        self, while_waiting: Callable[[], object] | None = None, end_on_failure: bool = True
    ) -> None:
        """Waits until the environments are constructed, and attaches them as before a restart.

        Args:
          while_waiting: Called every few milliseconds; may raise.
          end_on_failure: Whether to end the process if that fails; otherwise `close` must follow.
        """
        if self.is_ready:
            return
        with self._ending_on_failure(end_on_failure):
            self.descriptions = self.receive(while_waiting)
            self.is_ready = True
        if self.arrays is not None:
            self.attach(self.arrays, self.rows.start, self._autoreset)

    def close(self) -> None:
        """Ends the process, by force if it does not close its environments in time.

        May be called again.
        """
        self._end_process()
        self.arrays = None

    # Requests of a batch.

    def attach(self, arrays: BatchArrays, start: int, autoreset: bool = True) -> None:
        """See `EnvironmentGroup.attach`; the arrays' file must be open."""
        self.arrays, self._autoreset = arrays, autoreset
        self.rows = range(start, start + self.num_envs)
        arguments = (start, arrays.layout.num_envs, autoreset, list(arrays.layout.info))
        self._post_method("worker", "attach", arguments, (arrays.descriptor,))
        self.receive()

    def send_step(self, started: float | None = None) -> None:
        """Requests a step of all environments, with the arrays' actions, leaves [B, ...]."""
        self._steps += 1
        self._post(worker.STEP, started)

    def send_reset(self, options: Options | None = None, started: float | None = None) -> None:
        """Requests a reset by the arrays' mask, bool [B], with their seeds, int64 [B]."""
        if options is not None:
            self._post_method("group", "reset", (options,), started=started)
        else:
            self._post(worker.RESET, started)

    def receive(self, while_waiting: Callable[[], object] | None = None) -> Reply:
        """Waits for the reply to the last command and returns its content.

        After a time-out it can be called again; then the time limit runs again.

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
        if self._started is None:
            self._started = time.monotonic()
        while True:
            deadline = self.deadline
            try:
                status, data = self._channel.wait_reply(sequence, deadline, while_waiting)
                break
            except (ChannelClosed, MessageError, TimeoutError) as failure:
                if isinstance(failure, TimeoutError) and self.deadline > deadline:
                    continue  # Another environment is in use by now.
                raise self._as_environment_error(failure) from None
        self._replied, self.has_failed = sequence, False
        return self._read_reply(status, data) if data else []

    def _read_reply(self, status: int, data: bytes) -> Reply:
        """Returns the content of a reply, or raises the exceptions that it reports."""
        try:
            content = pickle.loads(data)
            if status == worker.RESULT:
                return content
            records, parts = content if status == worker.EXCEPTION else ([], content)
            pickled = [pickle.loads(part) for part in parts]
        except BaseException as failure:
            if stop_signals.is_interrupt(failure):
                raise
            raise self._as_environment_error(MessageError(failure)) from None
        errors = [
            raised_error(summary, text, row, name, self.pid, self._steps)
            for summary, text, row, name in records
        ]
        infos: RowInfos = []
        for row, info, final_info in pickled:
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
            except BaseException as failure:
                if stop_signals.is_interrupt(failure):
                    raise
                message, text = describe_exception(failure)
                summary = f"An environment's info '{key}' can't be received: {message}"
                record = summary, text, row, type(failure).__name__
                raise raised_error(*record, self.pid, self._steps) from None
        return info

    @property
    def is_busy(self) -> bool:
        """True while the last request is executed: receiving its reply would wait."""
        return not self._channel.has_count(self._sequence) and not self.worker.has_exited()

    def ask(self, method: str, index: int, *arguments: Any, blocking: bool = True) -> Reply:
        """See `LocalHost.ask`; if not blocking, returns a promise of the result."""
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
            with contextlib.suppress(EnvironmentRaisedError):  # The result is not needed.
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

    def _post(self, command: int, started: float | None = None, constructs: bool = False) -> None:
        """Sends a command; its time limit runs from `started`, by default from now."""
        self._constructs = constructs
        self._started = time.monotonic() if started is None else started
        self.drain()
        self._sequence += 1
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
        self._post(worker.METHOD, started, constructs=name in ("start", "restart"))
        try:
            self._channel.send(self._sequence, data, self.deadline, descriptors)
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
        """Seconds that the current request may take for one environment."""
        return self._start_timeout if self._constructs else self._timeout

    @property
    def since(self) -> float:
        """Since when the environment in use has been in use, a time of `time.monotonic`."""
        return max(self._started or 0.0, self._channel.busy_since[0])

    @property
    def deadline(self) -> float:
        """When the environment in use will have taken too long, a time of `time.monotonic`."""
        return self.since + self.timeout

    # Errors.

    def _as_environment_error(
        self, failure: ChannelClosed | MessageError | TimeoutError
    ) -> EnvironmentFailure:
        """Translates a channel failure into a typed error."""
        if isinstance(failure, TimeoutError):
            self._started, self.has_failed = None, True
            setting = "start_timeout" if self._constructs else "step_timeout"
            message = f"A worker process did not reply within {self.timeout:g} seconds ({setting})"
            return WorkerTimeoutError(message, self.busy_row, self.pid, self._steps)
        if isinstance(failure, ChannelClosed):
            exit_code = self.worker.wait(EXIT_SECONDS)
            return WorkerDiedError(exit_code, self.busy_row, self.pid, self._steps)
        message = f"A worker process sent an invalid message: {failure}"
        return WorkerMessageError(message, self.busy_row, self.pid, self._steps)

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self.worker.pid

    @property
    def busy_row(self) -> int | None:
        """Row in the batch of the environment in use; None if it is unknown which."""
        env = 0 if self.num_envs == 1 else self._channel.words[BUSY_ENV]
        return self.rows[env] if 0 <= env < self.num_envs else None


class EnvironmentHandle:
    """One environment of a worker process.

    Attributes that this class lacks are read from the environment, through its wrappers.
    """

    def __init__(self, host: WorkerHost, index: int):
        """Initializes the handle on environment `index` of `host`."""
        self._host, self._index = host, index

    # Attributes of an environment are of any type.

    def call(self, name: str, *args: Any, blocking: bool = True, **kwargs: Any) -> Any:
        """Calls a method of the environment.

        Args:
          name: The method's name.
          *args: Its arguments.
          blocking: Whether to wait for the result.
          **kwargs: Its keyword arguments.

        Returns:
          The result of the method. If not blocking, a function without arguments that waits for the
          result and returns it.

        Raises:
          EnvironmentRaisedError: The method raised or does not exist; with the worker's traceback.
        """
        return self._host.ask("call", self._index, name, args, kwargs, blocking=blocking)

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute of the environment."""
        self._host.ask("set", self._index, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in Description._fields:
            return getattr(self._host.descriptions[self._index], name)
        try:
            return self._host.ask("get", self._index, name)
        except EnvironmentRaisedError as error:
            if error.type_name != "AttributeError":
                raise
            raise AttributeError(str(error)) from error


class HostFailure(NamedTuple):
    """A failure of a request of the batch.

    Attributes:
      host: The host that failed.
      error: What it raised.
    """

    host: Host
    error: EnvironmentFailure


def raise_first(failures: Sequence[HostFailure]) -> NoReturn:
    """Raises the first failure, with the failures of other hosts and its own as `others`."""
    first, *others = (error for one in failures for error in (one.error, *one.error.others))
    first.others = tuple(others)
    raise first


def close_hosts(hosts: Sequence[Host]) -> None:
    """Closes hosts together: what hangs is ended by force after one period of grace for all."""
    workers = [host for host in hosts if isinstance(host, WorkerHost)]
    with contextlib.ExitStack() as stack:  # Closes all of them, even if one raises.
        for host in reversed(hosts):
            stack.callback(host.close)
        hurry = any(host.has_failed for host in workers)
        end_workers([host.worker for host in workers], hurry=hurry)
