"""Environments in a process of their own: the parent's side."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cloudpickle
import gymnasium
import numpy as np

from agents.tools import worker
from agents.tools.channel import BUSY_ENV, COMMAND, LINE_BYTES, STATUS, Channel, ChannelClosed, map_line
from agents.tools.environment_group import Infos
from agents.tools.errors import EnvironmentFailure, EnvironmentRaisedError, WorkerDiedError, WorkerTimeoutError
from agents.tools.shared_arrays import BatchArrays, Layout, Results, anonymous_file, map_block
from agents.tools.spaces import element, flatten, pack

Constructor = Callable[[], gymnasium.Env]

# How long a worker may take to close its environments, and then to end when told to.
GRACE_SECONDS = 2.0

_WORKER_CODE = "import sys; sys.path[:] = {path!r}; from agents.tools.worker import main; main(*{arguments!r})"


class ExternalProcess:
    """A Gymnasium environment, or several, in a process of its own.

    With one constructor it behaves like that environment: `step` and `reset` take and return single values, nothing is
    reset by itself, and attributes that this class lacks are those of the environment. With a list of constructors
    `step` and `reset` take and return batches, and `process[i]` stands for one of the environments.

    The process is a fresh interpreter: it does not import the caller's `__main__`, nor TensorFlow. It ends with its
    parent, however that ends.

    Attributes:
      pid: Its process id.
      num_envs: How many environments it hosts.
      descriptions: For each environment its spaces, metadata and render mode.
    """

    def __init__(
        self,
        constructor: Constructor | Sequence[Constructor],
        timeout: float = 60.0,
        start_timeout: float = 120.0,
        blocking: bool = True,
        index: int = 0,
    ):
        """Starts the process.

        Args:
          constructor: Makes an environment; or a sequence of such functions. Anything that cloudpickle takes.
          timeout: Seconds that one step, reset or call of the whole process may take.
          start_timeout: Seconds from the start of the process until its environments are made.
          blocking: Whether to wait for the environments to be made; otherwise `wait_until_ready` does.
          index: The (first) environment's number in the batch that it will belong to, for errors of constructors.

        Raises:
          ValueError: No constructors.
          EnvironmentRaisedError: A constructor failed; with the worker's traceback.
          WorkerDiedError: The process ended.
          WorkerTimeoutError: The environments were not made in time.
        """
        self._single = callable(constructor)
        constructors = [constructor] if self._single else list(constructor)  # type: ignore[arg-type]
        if not constructors:
            raise ValueError("A process needs at least one environment, got no constructors.")
        self.num_envs = len(constructors)
        self._timeout, self._start_timeout = timeout, start_timeout
        self._sequence = self._answered = 0
        self._steps, self._start = 0, index
        self._ready = False
        self.descriptions: list[dict[str, Any]] = []
        self._process, self._channel = _start_worker()
        self._creator = os.getpid()  # A fork of it has copies of these objects, but the worker is not its own.
        self._close = weakref.finalize(self, _end_worker, self._process, self._channel, self._creator)
        self.pid = self._process.pid
        with self._closing_on_failure():
            self._post(worker.METHOD, "worker", "start", (constructors, index))
        if blocking:
            self.wait_until_ready()

    # The life of the process.

    def wait_until_ready(self) -> None:
        """Waits until the environments are made. Raises as the constructor does, and closes the process then."""
        if self._ready:
            return
        with self._closing_on_failure():
            self.descriptions = self.receive()
            self._ready = True
            self._attach_own_arrays()

    def ask_to_close(self) -> None:
        """Has the process end, without waiting for it; so that several can end at the same time."""
        if os.getpid() == self._creator:
            self._channel.close()

    def close(self) -> None:
        """Ends the process: lets it close its environments, ends it by force if it does not go. May be called again."""
        self._close()

    @property
    def closed(self) -> bool:
        """Whether the process was closed."""
        return not self._close.alive

    # The environments, as one who uses them directly sees them.

    @property
    def observation_space(self) -> gymnasium.Space:
        """The observation space of the (first) environment."""
        return self.descriptions[0]["observation_space"]

    @property
    def action_space(self) -> gymnasium.Space:
        """The action space of the (first) environment."""
        return self.descriptions[0]["action_space"]

    def step(self, action: Any, blocking: bool = True) -> Any:
        """Steps the environments.

        Args:
          action: An action; with several environments a batch of them, [B, ...] a leaf.
          blocking: Whether to wait for the result.

        Returns:
          `(observ, reward, terminated, truncated, info)`. With several environments these are batches [B, ...], a list
          of infos last; an environment whose episode ended is reset at once, and its info holds `final_obs` and
          `final_info`. If not blocking, a function without arguments that waits for the result and returns it.

        Raises:
          EnvironmentRaisedError, WorkerDiedError, WorkerTimeoutError: See `agents.tools.errors`.
        """
        leaves = flatten(self.action_space, action)
        self._settle()
        for array, leaf in zip(self._arrays.action, leaves, strict=True):
            array[self._rows] = leaf
        self.send_step()
        promise = self._promise(self._result)
        return promise() if blocking else promise

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None, blocking: bool = True) -> Any:
        """Resets all environments.

        Args:
          seed: Of the first environment, not negative; the others count on from it.
          options: For the environments' own `reset`.
          blocking: Whether to wait for the result.

        Returns:
          `(observ, info)`, or a function that returns it, as for `step`.
        """
        if seed is not None and seed < 0:
            raise ValueError(f"A seed must not be negative, got {seed}.")
        self._settle()
        self._arrays.mask[self._rows] = True
        self._arrays.seed[self._rows] = -1 if seed is None else np.arange(seed, seed + self.num_envs)
        self.send_reset(options)

        def result() -> Any:
            observ, *_, info = self._result()
            return observ, info

        promise = self._promise(result)
        return promise() if blocking else promise

    def call(self, name: str, *args: Any, blocking: bool = True, **kwargs: Any) -> Any:
        """Calls a method of the only environment and returns its result; see `EnvironmentHandle.call`."""
        return self._only("call").call(name, *args, blocking=blocking, **kwargs)

    def __getitem__(self, index: int) -> EnvironmentHandle:
        return EnvironmentHandle(self, range(self.num_envs)[index])

    def __len__(self) -> int:
        return self.num_envs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # Copying and pickling look for these before there are any attributes.
            raise AttributeError(name)
        return getattr(self._only(name), name)

    # The environments as rows of a batch: what BatchEnv uses.

    def attach(self, arrays: BatchArrays, descriptor: int, start: int, autoreset: bool) -> None:
        """Hands rows of a batch's arrays to the process; see `EnvironmentGroup.attach`.

        Args:
          arrays: The arrays of the whole batch, over the block behind `descriptor`.
          descriptor: The block's file, which the process maps as well.
          start: Row of the first environment.
          autoreset: Whether to reset an environment in the step that ends its episode.
        """
        self._arrays, self._start = arrays, start
        arguments = (start, arrays.layout.num_envs, autoreset, list(arrays.info))
        self._post(worker.METHOD, "worker", "attach", arguments, (descriptor,))
        self.receive()

    def send_step(self) -> None:
        """Asks for a step with the actions that the arrays hold. Exactly one `receive` must follow."""
        self._steps += 1
        self._post(worker.STEP)

    def send_reset(self, options: dict[str, Any] | None = None) -> None:
        """Asks for a reset of the rows that the arrays' mask names. Exactly one `receive` must follow."""
        if options:
            self._post(worker.METHOD, "group", "reset", (options,))
        else:
            self._post(worker.RESET)

    def receive(self) -> Any:
        """Waits for the answer to what was asked last, and returns it; for steps and resets a list of infos.

        Raises:
          EnvironmentRaisedError: The environment failed.
          WorkerDiedError: The process is gone.
          WorkerTimeoutError: No answer in time. The answer, should it come, will not be taken for a later one.
        """
        self._check_open()
        channel, sequence, data = self._channel, self._sequence, b""
        try:
            channel.wait_count(sequence, self._patience)
            status = channel.line[STATUS]
            if status != worker.DONE:
                data = channel.receive(sequence, self._patience)[0]
        except (ChannelClosed, TimeoutError) as failure:
            raise self._typed(failure) from None
        self._answered = self._sequence
        if not data:
            return []
        content = cloudpickle.loads(data)
        if status == worker.EXCEPTION:
            summary, traceback_text, env, type_name = content
            raise EnvironmentRaisedError(summary, traceback_text, env, type_name, self.pid, self._steps)
        return content

    def ask(self, method: str, index: int, *arguments: Any, blocking: bool = True) -> Any:
        """Has `EnvironmentGroup`'s `call`, `get` or `set` called for environment `index`, and returns the result.

        If not blocking, returns a function that waits for it and returns it.
        """
        self._post(worker.METHOD, "group", method, (index, *arguments))
        promise = self._promise(self.receive)
        return promise() if blocking else promise

    def _post(
        self, command: int, owner: str = "", name: str = "", arguments: tuple = (), descriptors: tuple[int, ...] = ()
    ) -> None:
        self._settle()
        data = cloudpickle.dumps((owner, name, arguments)) if command == worker.METHOD else b""
        self._sequence += 1
        self._channel.line[COMMAND] = command
        self._channel.raise_count(self._sequence)
        if data:
            try:
                self._channel.send(self._sequence, data, self._patience, descriptors)
            except (ChannelClosed, TimeoutError) as failure:
                raise self._typed(failure) from None

    def _settle(self) -> None:
        """Waits for an answer that nobody took: before the arrays change, and so that it isn't taken for the next."""
        self._check_open()
        if self._answered != self._sequence:
            with contextlib.suppress(EnvironmentRaisedError):  # It answers a question that was given up.
                self.receive()

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("This worker process is closed; make a new one.")

    @contextlib.contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    @property
    def _patience(self) -> float:
        """Seconds that an answer may take."""
        return self._timeout if self._ready else self._start_timeout

    def _typed(self, failure: ChannelClosed | TimeoutError) -> EnvironmentFailure:
        """What it means that the channel failed."""
        if isinstance(failure, TimeoutError):
            message = f"A worker process did not answer within {self._patience:g} seconds"
            return WorkerTimeoutError(message, self._busy_env(), self.pid, self._steps)
        try:
            exit_code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            exit_code = None
        return WorkerDiedError(exit_code, self._busy_env(), self.pid, self._steps)

    def _busy_env(self) -> int | None:
        """The environment that the worker is at; None if it is at none of several."""
        env = 0 if self.num_envs == 1 else self._channel.line[BUSY_ENV]
        return None if env < 0 else self._start + env

    def _attach_own_arrays(self) -> None:
        layout = Layout(self.num_envs, self.observation_space, self.action_space)
        descriptor = anonymous_file(layout.size)
        try:
            self.attach(BatchArrays(layout, map_block(descriptor, layout.size)), descriptor, 0, not self._single)
        finally:
            os.close(descriptor)

    @property
    def _rows(self) -> slice:
        return slice(self._start, self._start + self.num_envs)

    def _result(self) -> tuple[Any, ...]:
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        answer: Infos = self.receive()
        arrays = Results(self._arrays.layout, self._arrays.copy_results())
        for row, info, final_info in answer:
            infos[row - self._start].update(info)
            if final_info is not None:
                final_observ = element(self.observation_space, arrays.final_observ, row)
                infos[row - self._start].update(final_obs=final_observ, final_info=final_info)
        numbers = [array[self._rows] for array in (arrays.reward, arrays.terminated, arrays.truncated)]
        if self._single:
            observ = element(self.observation_space, arrays.observ, self._start)
            return (observ, *(number.item() for number in numbers), infos[0])
        observ = pack(self.observation_space, (leaf[self._rows] for leaf in arrays.observ))
        return (observ, *numbers, infos)

    def _promise(self, result: Callable[[], Any]) -> Callable[[], Any]:
        """A function that waits for the answer to what was asked just now; it may be called again."""
        sequence = self._sequence
        outcome: concurrent.futures.Future = concurrent.futures.Future()

        def wait() -> Any:
            if outcome.done():
                return outcome.result()
            if sequence != self._sequence:
                raise RuntimeError(
                    "The result is gone: the process was asked for something else before it was waited for."
                )
            try:
                outcome.set_result(result())
            except Exception as error:
                if self._answered != sequence:
                    raise  # There is no answer yet; one can wait for it again.
                outcome.set_exception(error)
            return outcome.result()

        return wait

    def _only(self, name: str) -> EnvironmentHandle:
        if not self._single:
            raise AttributeError(
                f"'{name}' of which environment? This process hosts {len(self)}: use process[i].{name}"
            )
        return self[0]


class EnvironmentHandle:
    """One environment of an `ExternalProcess`. Its attributes are read from the environment, through its wrappers."""

    def __init__(self, process: ExternalProcess, index: int):
        """Stands for environment `index` of `process`."""
        self._process, self._index = process, index

    def call(self, name: str, *args: Any, blocking: bool = True, **kwargs: Any) -> Any:
        """Calls a method of the environment.

        Args:
          name: The method's name.
          *args: Its arguments.
          blocking: Whether to wait for the result.
          **kwargs: Its keyword arguments.

        Returns:
          What the method returned; or, if not blocking, a function that waits for it and returns it.

        Raises:
          EnvironmentRaisedError: The method failed, or there is none; with the worker's traceback.
        """
        return self._process.ask("call", self._index, name, args, kwargs, blocking=blocking)

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute of the environment."""
        self._process.ask("set", self._index, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._process.descriptions[self._index]:
            return self._process.descriptions[self._index][name]
        try:
            return self._process.ask("get", self._index, name)
        except EnvironmentRaisedError as error:
            if error.type_name != "AttributeError":
                raise
            raise AttributeError(str(error)) from error


class _Spawner:
    """One thread that starts all workers and lives as long as the process.

    Linux ends a worker when the thread that started it ends, not when the process does.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._jobs: queue.SimpleQueue[tuple[tuple, dict, concurrent.futures.Future]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="worker-spawner", daemon=True).start()

    def start(self, *args: Any, **kwargs: Any) -> subprocess.Popen:
        """Like `subprocess.Popen`."""
        future: concurrent.futures.Future = concurrent.futures.Future()
        self._jobs.put((args, kwargs, future))
        return future.result()

    def _run(self) -> None:
        # Workers inherit this. Ctrl-C reaches the whole group of processes; the parent closes its workers.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while True:
            args, kwargs, future = self._jobs.get()
            try:
                future.set_result(subprocess.Popen(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)


_spawner: _Spawner | None = None


def _start_worker() -> tuple[subprocess.Popen, Channel]:
    global _spawner
    if _spawner is None or _spawner.pid != os.getpid():  # A fork has no threads but the one that forked.
        _spawner = _Spawner()
    line = anonymous_file(LINE_BYTES)
    bell, their_bell = socket.socketpair()
    messages, their_messages = socket.socketpair()
    inherited = (line, their_bell.fileno(), their_messages.fileno())
    try:
        # Threads of a worker's own would only compete with the other workers.
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | os.environ
        code = _WORKER_CODE.format(path=sys.path, arguments=(os.getpid(), *inherited))
        process = _spawner.start(
            [sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=inherited, env=environment
        )
        shared = map_line(line)
        shared[BUSY_ENV] = -1
        return process, Channel(shared, bell, messages, parent=True, other_ended=lambda: process.poll() is not None)
    finally:
        os.close(line)
        their_bell.close()
        their_messages.close()


def _end_worker(process: subprocess.Popen, channel: Channel, creator: int) -> None:
    if os.getpid() != creator:
        return
    channel.close()
    for escalate in (process.terminate, process.kill):
        try:
            process.wait(GRACE_SECONDS)
            break
        except subprocess.TimeoutExpired:
            escalate()
    process.wait()
