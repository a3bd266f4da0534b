import contextlib
import sys
import time
import warnings

import cloudpickle
import pytest

from agents.vector import exchange
from agents.vector.exchange import Watchdog
from agents.vector.process_batch import make_batch_env
from tests.faulty_toys import CommandedEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Sleepy(CommandedEnv):
    """Sleeps for as many hundredths of a second as its action says."""

    def step(self, action):
        time.sleep(action / 100)
        return super().step(0)


@contextlib.contextmanager
def recording(monkeypatch):
    """Yields a list that gets the time and the text of every warning."""
    seen = []
    monkeypatch.setattr(
        warnings, "warn", lambda text, *_, **__: seen.append((time.monotonic(), text))
    )
    yield seen
    monkeypatch.undo()


def test_a_slow_environment_is_named_while_it_is_waited_for(monkeypatch):
    with contextlib.closing(make_batch_env([Sleepy] * 4, 2)) as batch:
        batch.reset()
        pid = batch[3]._host.pid
        with recording(monkeypatch) as seen:
            monkeypatch.setattr(exchange, "MIN_SECONDS", 0.05)
            batch.step([30, 0, 0, 50])
            assert seen == []  # They are as slow as each other.
            monkeypatch.setattr(exchange, "MIN_SECONDS", 0.2)
            batch.step([0, 0, 0, 90])
            ended = time.monotonic()
            batch.step([0, 0, 0, 60])  # Not again soon.
            batch.step([60, 0, 0, 0])
        (when, first), (_, second) = seen
        assert when < ended - 0.1
        assert first.startswith(
            f"Environment 3 (process {pid}) has been in step or reset for 0.2 s; "
        )
        assert "; those of other processes took 0.0" in first and "\n" not in first
        assert "Environment 0 " in second


def test_slow_constructors_are_named(monkeypatch):
    monkeypatch.setattr(exchange, "CONSTRUCTOR_SECONDS", 1.5)

    def slow():
        time.sleep(3)
        return CommandedEnv()

    with recording(monkeypatch) as seen:
        make_batch_env([CommandedEnv, slow], 2).close()
    # On a busy machine the first environment may take as long.
    assert len(seen) == 1 and "nvironment 1 (process " in seen[0][1]
    assert "been under construction for 1." in seen[0][1]


class Busy:
    """A host as a watchdog sees it."""

    rows = range(3)

    def __init__(self, is_busy, timeout=60, pid=7):
        self.is_busy, self.timeout, self.pid, self.busy_row = is_busy, timeout, pid, None
        self.since = 0.0


def test_an_environment_that_came_into_use_late_is_waited_for_as_long(monkeypatch):
    host = Busy(True)
    watchdog, now = Watchdog([host]), time.monotonic()
    watchdog.begin("reset", now)
    with recording(monkeypatch) as seen:
        for host.since, later in ((now + 29, 31), (now + 29, 60)):
            monkeypatch.setattr(time, "monotonic", lambda later=later: now + later)
            watchdog.look()
    assert [text.partition(" in ")[2] for _, text in seen] == ["reset for 31.0 s."]


@pytest.mark.parametrize(
    ("others", "waited", "warns"),
    [
        (True, 0.9, False),
        (True, 1.1, True),
        (False, 1.1, False),
        (False, 29, False),
        (False, 31, True),
    ],
)
def test_half_of_the_deadline_is_waited_without_others(others, waited, warns, monkeypatch):
    hosts = [Busy(True), *([Busy(False)] if others else [])]
    watchdog = Watchdog(hosts)
    now = time.monotonic()
    watchdog.begin("reset", now)
    watchdog.look()
    monkeypatch.setattr(time, "monotonic", lambda: now + waited)
    with recording(monkeypatch) as seen:
        monkeypatch.setattr(time, "monotonic", lambda: now + waited)
        watchdog.look()
        watchdog.look()
    assert [text[:44] for _, text in seen] == [
        "Environments 0 to 2 (process 7) have been in"
    ] * warns
