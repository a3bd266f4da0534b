"""Crashes, hangs and bad data of environments in constructors, resets and steps of a batch."""

import contextlib
import functools
import itertools
import os
import sys
import time
import warnings

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from agents.errors import (
    MAX_MESSAGE_LENGTH,
    EnvironmentFailure,
    EnvironmentRaisedError,
    InvalidDataError,
    WorkerDiedError,
    WorkerTimeoutError,
)
from agents.vector.process_batch import make_batch_env
from tests.environments.test_data_check import BAD_STEPS
from tests.faults.figures import record
from tests.faults.processes import holdings
from tests.faults.troubled_env import BAD_CONSTRUCTORS, CALLS, CRASHES, HANGS, TroubledEnv

NUM_ENVS, CLOSE_SECONDS, LATE_SECONDS = 4, 60.0, 30.0
ACTIONS = np.zeros(8, int)
BAD_RESETS = {
    **{kind: bad for kind, bad in BAD_STEPS.items() if "observation" in kind},
    "info that is no dictionary": ({1: [1]}, r"the info \[1\], expected a dictionary"),
    "no info": ({1: None}, "the info None, expected a dictionary"),
    "one value": (1, r"1 values, expected \(observ, info\)"),
    "no values": (None, r"None, expected \(observ, info\)"),
}
SOME_CRASHES = [
    ("an error whose text exits", "constructor"), ("SIGKILL", "reset"), ("its files closed", "step")
]  # fmt: skip
ALL_CRASHES = list(itertools.product(CRASHES, CALLS))

pytestmark = [
    pytest.mark.timing,
    pytest.mark.usefixtures("spawner"),
    pytest.mark.filterwarnings("ignore:.*(have|has) been (in|under)"),
]


def constructors(row, fault, call):
    """Environments of a batch, of which that of a row has a fault."""
    makers = [TroubledEnv] * NUM_ENVS
    makers[row] = functools.partial(TroubledEnv, fault, call, at=1)
    return makers


class Failure:
    """What a batch does until it fails, and how long that takes.

    Attributes:
      error: The error.
      call: The call that has failed.
      pids: Ids of its workers; None if a constructor failed.
      seconds: From the start of the call.
      close_seconds: That closing took.
    """

    def __init__(self, makers, processes=2, timeout=120.0, start_timeout=120.0):
        batch, self.pids, self.close_seconds = None, None, 0.0
        try:
            self._begin("constructor")
            batch = make_batch_env(makers, processes, timeout, start_timeout=start_timeout)
            self.pids = [host.pid for host in batch._hosts]
            self._begin("reset")
            batch.reset(seed=0)
            self._begin("step")
            batch.step(ACTIONS[: len(makers)])
        except (EnvironmentFailure, ValueError) as error:
            self.error, self.seconds = error, time.monotonic() - self._start
            if batch is not None:
                with pytest.raises(ResetNeeded):
                    batch.step(ACTIONS[: len(makers)])
        else:
            raise AssertionError("nothing failed")
        finally:
            if batch is not None:
                start = time.monotonic()
                batch.close()
                self.close_seconds = time.monotonic() - start
        assert self.close_seconds < CLOSE_SECONDS

    def _begin(self, call):
        self.call, self._start = call, time.monotonic()

    def check_place(self, row, call):
        """Checks that the error names call, environment, process and step."""
        error = self.error
        assert (self.call, error.env_index) == (call, row), error
        assert error.pid and (self.pids is None or error.pid == self.pids[row // 2])
        assert error.step == {"constructor": 0, "reset": 0, "step": error.step or None}[call]
        message = str(error.args[0])
        assert f"environment {row}" in message and f"process {error.pid}" in message, message


@pytest.mark.parametrize(
    "cases", [SOME_CRASHES, pytest.param(ALL_CRASHES, marks=pytest.mark.slow)], ids=len
)
def test_crashes(cases, capfd):
    before, failures = holdings(), []
    for (name, call), row in zip(cases, itertools.cycle(range(NUM_ENVS)), strict=False):
        failure = Failure(constructors(row, name, call))
        failure.check_place(row, call)
        error, expected = failure.error, CRASHES[name][1]
        if isinstance(expected, str):
            assert isinstance(error, EnvironmentRaisedError) and error.type_name == expected, error
            assert len(error.args[0]) < 2 * MAX_MESSAGE_LENGTH
            str(error).encode()
        else:
            assert type(error) is WorkerDiedError and error.exit_code in expected, error
        failures.append((failure.seconds if failure.pids else 0.0, failure.close_seconds))
    del failure, error  # Its traceback keeps the batch.
    assert not holdings().more_than(before)
    seconds, close_seconds = map(max, zip(*failures, strict=True))
    record(
        "crash faults in BatchEnv",
        cases=len(cases),
        faults=len({name for name, _ in cases}),
        hangs=0,
        seconds_until_error=round(seconds, 2),
        seconds_to_close=round(close_seconds, 2),
    )


class Telling(TroubledEnv):
    """Ends episodes with an info that is hard to send, or to receive."""

    class Exiting:
        """Can't be pickled, and exits where it is to be described."""

        def __reduce__(self):
            raise TypeError("no")

        def __repr__(self):
            sys.exit(3)

    class Dying:
        """Ends its process where it is pickled."""

        def __reduce__(self):
            os._exit(5)

    class Refusing:
        """Raises where it is unpickled."""

        def __setstate__(self, state):
            raise LookupError("it was made elsewhere")

    def __init__(self, kind=""):
        super().__init__()
        from agents.workers import worker

        worker.MAX_INFOS_BYTES = 1000  # In the worker's process.
        values = {
            "large": lambda: bytes(worker.MAX_INFOS_BYTES + 1),
            "exits": Telling.Exiting,
            "dies": Telling.Dying,
            "refuses": Telling.Refusing,
            "generates": lambda: (1 for _ in ()),
            "tells": lambda: Telling.Exiting,
        }
        self._info = {"before": 1, "tell": values[kind](), "after": 2} if kind else {}
        if kind == "refuses":
            self._info["tell"].attribute = 1  # Without a state, it is not set.

    def step(self, action):
        observ, reward, _, truncated, _ = super().step(action)
        return observ, reward, True, truncated, self._info


@pytest.mark.parametrize("kind", ["large", "dies", "refuses"])
def test_an_info_that_does_not_arrive_names_its_environment(kind):
    makers = [TroubledEnv] * 3 + [functools.partial(Telling, kind)] + [TroubledEnv] * 2
    failure = Failure(makers)
    error = failure.error
    assert (error.env_index, error.step, failure.call) == (3, 1, "step")
    assert error.pid == failure.pids[1] and error.others == ()
    if kind == "dies":
        assert error.exit_code == 5
    elif kind == "large":
        assert "An environment's info can't be sent" in error.args[0]
    else:
        assert "info 'tell' can't be received: LookupError: it was made" in error.args[0]
        assert error.type_name == "LookupError" and "__setstate__" in error.traceback_text


def test_a_value_of_an_info_that_cannot_be_pickled_is_its_description():
    expected = ["<Telling.Exiting>", "<generator object", Telling.Exiting]
    makers = [functools.partial(Telling, kind) for kind in ("exits", "generates", "tells")]
    with contextlib.closing(make_batch_env(makers, 1)) as batch:
        batch.reset(seed=0)
        info = batch.step(ACTIONS[:3])[-1]["final_info"]
    for told, description in zip(info["tell"], expected, strict=True):
        assert told is description or told.startswith(description)
    assert info["before"].tolist() == [1] * 3 and info["after"].tolist() == [2] * 3


def hoard(keeps):
    """Opens files until there are no more; returns an environment that keeps them, or raises."""
    env = TroubledEnv()
    env.files = []
    try:
        while True:
            env.files.append(os.open("/", os.O_RDONLY))
    except OSError:
        if not keeps:
            raise
    return env


def test_a_constructor_that_leaves_no_files_is_named():
    for keeps in (True, False):
        makers = [TroubledEnv, functools.partial(hoard, keeps=keeps), TroubledEnv, TroubledEnv]
        with pytest.raises(EnvironmentRaisedError, match="Too many open files") as caught:
            make_batch_env(makers, 1)
        assert caught.value.env_index == 1


@pytest.mark.parametrize(
    ("cases", "timeout"),
    [
        ([("holds the GIL", "step")], 1.0),
        pytest.param(list(itertools.product(HANGS, CALLS)), 2.0, marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_hangs(cases, timeout, start_timeout=6.0):
    before, late, close_seconds = holdings(), 0.0, 0.0
    for (name, call), row in zip(cases, itertools.cycle(range(NUM_ENVS)), strict=False):
        is_start = call == "constructor"
        makers = constructors(row, name, call)
        failure = Failure(makers, 2, timeout, start_timeout if is_start else 60.0)
        assert type(failure.error) is WorkerTimeoutError
        failure.check_place(row, call)
        if is_start:  # It closes the batch as well.
            assert failure.seconds < start_timeout + LATE_SECONDS + CLOSE_SECONDS
        else:
            assert failure.seconds < timeout + LATE_SECONDS
            late = max(late, failure.seconds / timeout - 1)
        close_seconds = max(close_seconds, failure.close_seconds)
    del failure  # The traceback of its error keeps the batch.
    assert not holdings().more_than(before)
    record(
        "hang faults in BatchEnv",
        cases=len(cases),
        faults=len({name for name, _ in cases}),
        hangs=0,
        percent_over_the_deadline=round(100 * late, 1),
        seconds_to_close=round(close_seconds, 2),
    )


@pytest.mark.slow  # tests/vector/test_exchange.py has a short one.
def test_eight_workers_that_hang_together(num_envs=8, timeout=2.0):
    late, close_seconds = 0.0, 0.0
    for name in HANGS:
        makers = [functools.partial(TroubledEnv, name, "step", at=1)] * num_envs
        failure = Failure(makers, num_envs, timeout)
        errors = (failure.error, *failure.error.others)
        assert {error.pid for error in errors} == set(failure.pids)
        assert {error.env_index for error in errors} == set(range(num_envs))
        assert failure.seconds < 1.1 * timeout
        late = max(late, failure.seconds / timeout - 1)
        close_seconds = max(close_seconds, failure.close_seconds)
    record(
        "8 workers that hang together",
        cases=len(HANGS),
        percent_over_the_deadline=round(100 * late, 1),
        seconds_to_close=round(close_seconds, 2),
    )


def run_bad_data(processes):
    """All kinds in all calls, in environments of one batch; returns the number of cases."""
    kinds = [("step", *case) for case in BAD_STEPS.values()]
    kinds += [("reset", *case) for case in BAD_RESETS.values()]
    batch = make_batch_env([TroubledEnv] * NUM_ENVS, processes, timeout=30)
    with contextlib.closing(batch), warnings.catch_warnings():
        pids = [batch[row]._host.pid for row in range(NUM_ENVS)]
        for index, (call, bad, message) in enumerate(kinds):
            row = index % NUM_ENVS
            before, _ = batch.reset(seed=0)
            batch[row].call("arm", bad, call)
            with pytest.raises(EnvironmentRaisedError, match=message) as caught:
                batch.reset() if call == "reset" else batch.step(ACTIONS[:NUM_ENVS])
            error = caught.value
            if isinstance(bad, dict):
                assert isinstance(error, InvalidDataError) and "Traceback" not in str(error)
                assert str(error).startswith(f"An environment's {call} returned ")
            assert (error.env_index, error.pid) == (row, pids[row])
            assert error.others == () and isinstance(error.step, int)
            with pytest.raises(ResetNeeded):  # There is nothing to learn from.
                batch.step(ACTIONS[:NUM_ENVS])
        observ, _ = batch.reset(seed=0)
        np.testing.assert_array_equal(observ, before)
    return len(kinds)


@pytest.mark.parametrize("processes", [[2], pytest.param([1, 2, 4], marks=pytest.mark.slow)])
def test_bad_data(processes, capfd):
    before = holdings()
    cases = sum(map(run_bad_data, processes)) + len(BAD_CONSTRUCTORS)
    for index, make in enumerate(BAD_CONSTRUCTORS.values()):
        row = 1 + index % (NUM_ENVS - 1)  # The first one's spaces are those of the batch.
        makers = [TroubledEnv] * NUM_ENVS
        makers[row] = make
        with pytest.raises((EnvironmentFailure, ValueError), match=f"nvironment {row}"):
            make_batch_env(makers, 1)
    assert not holdings().more_than(before)
    record(
        "bad data in BatchEnv",
        cases=cases,
        kinds=len({*BAD_STEPS, *BAD_RESETS, *BAD_CONSTRUCTORS}),
        returned=0,
    )
