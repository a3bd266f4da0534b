"""Crashes, hangs and bad data of environments in constructors, resets and steps of a batch."""

import contextlib
import functools
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
    **{kind: bad for kind, (bad, _) in BAD_STEPS.items() if "observation" in kind},
    "info that is no dictionary": {1: [1]},
    "no info": {1: None},
    "one value": 1,
    "no values": None,
}
SHORT_CRASHES = ("an error whose text exits", "SIGKILL", "its files closed")

pytestmark = [
    pytest.mark.timing,
    pytest.mark.usefixtures("spawner"),
    pytest.mark.filterwarnings("ignore:.*(have|has) been (in|under)"),
]


class Times:
    """The longest time of each kind of action, in seconds."""

    def __init__(self):
        self.longest = {}

    @contextlib.contextmanager
    def measure(self, kind, limit=float("inf")):
        start = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - start
            self.longest[kind] = max(seconds, self.longest.get(kind, 0))
        assert seconds <= limit, f"{kind} took {seconds:.2f} s of at most {limit:.2f} s"


def constructors(row, fault, call, num_envs=NUM_ENVS):
    """Environments of a batch, of which that of a row has a fault."""
    makers = [TroubledEnv] * num_envs
    makers[row] = functools.partial(TroubledEnv, fault, call, at=1)
    return makers


def fail(makers, times, processes=2, timeout=120.0, start_timeout=120.0, call_limit=float("inf")):
    """Runs a batch until it fails; returns the error, the pids of its workers, and the call."""
    batch = None
    call = "constructor"
    try:
        with times.measure("start"):
            batch = make_batch_env(makers, processes, timeout, start_timeout=start_timeout)
        pids = [host.pid for host in batch._hosts]
        call = "reset"
        with times.measure("failure", call_limit):
            batch.reset(seed=0)
        call = "step"
        with times.measure("failure", call_limit):
            batch.step(ACTIONS[: len(makers)])
    except (EnvironmentFailure, ValueError) as error:
        if batch is not None:
            with pytest.raises(ResetNeeded):
                batch.step(ACTIONS[: len(makers)])
        return error, pids if batch is not None else None, call
    finally:
        if batch is not None:
            with times.measure("close", CLOSE_SECONDS):
                batch.close()
    raise AssertionError("nothing failed")


def check_place(error, row, pids, call, names_env=True):
    """Checks that an error names environment, process and step."""
    assert error.env_index == row or not names_env, error
    assert error.pid and (pids is None or error.pid == pids[row // 2 if len(pids) == 2 else row])
    assert error.step == {"constructor": 0, "reset": 0, "step": error.step or None}[call]
    message = str(error.args[0])
    for name, number in (("environment", error.env_index), ("process", error.pid)):
        assert number is None or f"{name} {number}" in message, message


def crash(name, call, row, times):
    error, pids, where = fail(constructors(row, name, call), times)
    expected = CRASHES[name][1]
    assert where == call
    check_place(error, row, pids, where)
    if isinstance(expected, str):
        assert isinstance(error, EnvironmentRaisedError) and error.type_name == expected, error
        assert len(error.args[0]) < 2 * MAX_MESSAGE_LENGTH
        str(error).encode()
    else:
        assert type(error) is WorkerDiedError and error.exit_code in expected, error


def run_crashes(names):
    times, before = Times(), holdings()
    rows = np.random.default_rng(0).integers(NUM_ENVS, size=(len(names), len(CALLS)))
    for name, name_rows in zip(names, rows.tolist(), strict=True):
        for call, row in zip(CALLS, name_rows, strict=True):
            crash(name, call, row, times)
    assert not holdings().more_than(before)
    record(
        "crash faults in BatchEnv",
        cases=len(names) * len(CALLS),
        faults=len(names),
        hangs=0,
        seconds_until_error=round(times.longest["failure"], 2),
        seconds_to_close=round(times.longest["close"], 2),
    )


def test_some_crashes(capfd):
    times, before = Times(), holdings()
    for row, (name, call) in enumerate(zip(SHORT_CRASHES, CALLS, strict=True)):
        crash(name, call, row, times)
    assert not holdings().more_than(before)


@pytest.mark.slow
def test_all_crashes(capfd):
    run_crashes(tuple(CRASHES))


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

    def __init__(self, kind="", large=1):
        super().__init__()
        from agents.workers import worker

        worker.MAX_INFOS_BYTES //= large  # In the worker's process.
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


@pytest.mark.parametrize(
    ("kind", "large"),
    [
        ("large", 10**6),
        pytest.param("large", 1, marks=pytest.mark.slow),
        ("dies", 1),
        ("refuses", 1),
    ],
)
def test_an_info_that_does_not_arrive_names_its_environment(kind, large):
    makers = [TroubledEnv] * 3 + [functools.partial(Telling, kind, large)] + [TroubledEnv] * 2
    error, pids, where = fail(makers, Times())
    assert (error.env_index, error.step, where) == (3, 1, "step")
    assert error.pid == pids[1] and error.others == ()
    if kind == "dies":
        assert error.exit_code == 5
    elif kind == "large":
        assert "An environment's info can't be sent" in error.args[0]
    else:
        assert "info 'tell' can't be received: LookupError: it was made" in error.args[0]
        assert error.type_name == "LookupError" and "__setstate__" in error.traceback_text


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("exits", "<Telling.Exiting>"),
        ("generates", "<generator object"),
        ("tells", Telling.Exiting),
    ],
)
def test_a_value_of_an_info_that_cannot_be_pickled_is_its_description(kind, expected):
    makers = [TroubledEnv, functools.partial(Telling, kind)]
    with contextlib.closing(make_batch_env(makers, 1)) as batch:
        batch.reset(seed=0)
        info = batch.step(ACTIONS[:2])[-1]["final_info"]
    told = info["tell"][1]
    assert told is expected or told.startswith(expected)
    assert (info["before"][1], info["after"][1]) == (1, 2)


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


@pytest.mark.parametrize("keeps", [True, False])
def test_a_constructor_that_leaves_no_files_is_named(keeps):
    makers = [TroubledEnv, functools.partial(hoard, keeps=keeps), TroubledEnv, TroubledEnv]
    with pytest.raises(EnvironmentRaisedError, match="Too many open files") as caught:
        make_batch_env(makers, 1)
    assert caught.value.env_index == 1


def test_an_environment_whose_infos_hold_objects_is_restarted():
    makers = [TroubledEnv, functools.partial(Odd, "ValueError", at=1)]
    with contextlib.closing(make_batch_env(makers, 1, restart_limit=1)) as batch:
        batch.reset(seed=0)
        with pytest.warns(UserWarning, match="Environment 1: restart number 1"):
            batch.step(ACTIONS[:2])
        assert batch.restarts.count == 1


class Odd(TroubledEnv):
    """Has an object in the infos of its resets."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"object": object()}


def run_hangs(names, calls=CALLS, timeout=2.0, start_timeout=3.0):
    times, before = Times(), holdings()
    late = 0.0
    for index, name in enumerate(names):
        for call in calls:
            row = index % NUM_ENVS
            start = time.monotonic()
            makers = constructors(row, name, call)
            error, pids, where = fail(
                makers,
                times,
                timeout=timeout,
                start_timeout=start_timeout if call == "constructor" else 60.0,
                call_limit=timeout + LATE_SECONDS,
            )
            if call == "constructor":  # It closes the batch, too.
                assert time.monotonic() - start <= start_timeout + LATE_SECONDS + CLOSE_SECONDS
            else:
                late = max(late, times.longest["failure"] / timeout - 1)
            assert where == call and type(error) is WorkerTimeoutError
            check_place(error, row, pids, where)
    del error  # Its traceback keeps the batch.
    assert not holdings().more_than(before)
    record(
        "hang faults in BatchEnv",
        cases=len(names) * len(calls),
        faults=len(names),
        hangs=0,
        percent_over_the_deadline=round(100 * late, 1),
        seconds_to_close=round(times.longest.get("close", 0), 2),
    )


def test_an_environment_that_hangs():
    run_hangs(["holds the GIL"], ["step"], timeout=1.0)


@pytest.mark.slow
def test_all_hangs():
    run_hangs(tuple(HANGS))


def run_hanging_together(name, num_envs, timeout=2.0):
    times = Times()
    makers = [functools.partial(TroubledEnv, name, "step", at=1)] * num_envs
    error, pids, _ = fail(makers, times, num_envs, timeout, call_limit=1.1 * timeout)
    assert {one.pid for one in (error, *error.others)} == set(pids)
    assert {one.env_index for one in (error, *error.others)} == set(range(num_envs))
    return times


@pytest.mark.slow
def test_eight_workers_that_hang_together():
    timeout, late, close = 2.0, 0.0, 0.0
    for name in HANGS:
        longest = run_hanging_together(name, 8, timeout).longest
        late = max(late, longest["failure"] / timeout - 1)
        close = max(close, longest["close"])
    record(
        "8 workers that hang together",
        cases=len(HANGS),
        percent_over_the_deadline=round(100 * late, 1),
        seconds_to_close=round(close, 2),
    )


def run_bad_data(processes):
    """All kinds in all calls, in environments of one batch; returns the number of cases."""
    kinds = [("step", kind, bad) for kind, (bad, _) in BAD_STEPS.items()]
    kinds += [("reset", kind, bad) for kind, bad in BAD_RESETS.items()]
    batch = make_batch_env([TroubledEnv] * NUM_ENVS, processes, timeout=30)
    with contextlib.closing(batch), warnings.catch_warnings():
        pids = [batch[row]._host.pid for row in range(NUM_ENVS)]
        for index, (call, kind, bad) in enumerate(kinds):
            row = index % NUM_ENVS
            before, _ = batch.reset(seed=0)
            batch[row].call("arm", bad, call)
            with pytest.raises(EnvironmentRaisedError) as caught:
                batch.reset() if call == "reset" else batch.step(ACTIONS[:NUM_ENVS])
            error = caught.value
            assert isinstance(error, InvalidDataError) or "pack" in str(error), kind
            assert (error.env_index, error.pid) == (row, pids[row])
            assert error.others == () and isinstance(error.step, int)
            with pytest.raises(ResetNeeded):  # There is nothing to learn from.
                batch.step(ACTIONS[:NUM_ENVS])
        observ, _ = batch.reset(seed=0)
        np.testing.assert_array_equal(observ, before)
    return len(kinds)


def run_bad_constructors():
    """Constructors that return what is no environment of the batch."""
    for index, make in enumerate(BAD_CONSTRUCTORS.values()):
        row = 1 + index % (NUM_ENVS - 1)  # The first one's spaces are those of the batch.
        makers = [TroubledEnv] * NUM_ENVS
        makers[row] = make
        with pytest.raises((EnvironmentFailure, ValueError), match=f"nvironment {row}"):
            make_batch_env(makers, 1)
    return len(BAD_CONSTRUCTORS)


def run_bad(processes):
    before = holdings()
    cases = sum(map(run_bad_data, processes)) + run_bad_constructors()
    assert not holdings().more_than(before)
    record(
        "bad data in BatchEnv",
        cases=cases,
        kinds=len({*BAD_STEPS, *BAD_RESETS, *BAD_CONSTRUCTORS}),
        returned=0,
    )


def test_bad_data_of_several_environments_in_a_process(capfd):
    run_bad([2])


@pytest.mark.slow
def test_bad_data(capfd):
    run_bad([1, 2, NUM_ENVS])
