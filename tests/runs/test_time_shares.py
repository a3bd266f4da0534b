import pytest

from agents.runs import time_shares
from agents.runs.time_shares import TimeShares


@pytest.fixture
def clock(monkeypatch):
    times = [50.0]
    monkeypatch.setattr(time_shares.time, "perf_counter", lambda: times[0])
    return times


def test_shares_are_fractions_of_the_time_since_the_last_report(clock):
    shares = TimeShares()
    shares.add("environments", 3.0)
    shares.add("environments", 1.0)
    clock[0] += 4.0
    with shares.measuring("logging"):
        clock[0] += 1.0
    clock[0] += 3.0
    assert shares.report() == {"time/environments": 0.5, "time/logging": 0.125}
    clock[0] += 1.0
    assert shares.report() == {}
    with pytest.raises(KeyError), shares.measuring("saving"):
        clock[0] += 0.5
        raise KeyError
    assert shares.report() == {"time/saving": 1.0}
