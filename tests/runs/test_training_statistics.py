import warnings

import numpy as np
import pytest

from agents.runs import training_statistics
from agents.runs.training_statistics import EpisodeStatistics, TimeShares

NAN = np.nan


def add(statistics, done, returns=None, lengths=None, **extras):
    """Adds an iteration; arguments are [T, B]."""
    done = np.array(done, bool)
    returns = np.zeros(done.shape) if returns is None else np.array(returns)
    lengths = np.zeros(done.shape) if lengths is None else np.array(lengths)
    numbers = {key: np.array(values, np.float32) for key, values in extras.items()}
    statistics.add(done, returns.astype(np.float32), lengths.astype(np.int32), numbers)


def test_means_are_of_episodes_that_ended():
    statistics = EpisodeStatistics([], set())
    add(statistics, [[0, 1], [0, 0], [1, 1]], [[9, 1], [9, 9], [2, 6]], [[9, 10], [9, 9], [20, 30]])
    assert statistics.scalars() == {"episode/return": 3.0, "episode/length": 20.0}


def test_means_are_of_all_iterations_since_the_last_scalars():
    statistics = EpisodeStatistics(["speed"], set())
    add(statistics, [[1, 0]], [[1, 9]], [[5, 9]], speed=[[1, 2]])
    add(statistics, [[0, 0]], [[9, 9]], [[9, 9]], speed=[[3, 6]])
    add(statistics, [[1, 1]], [[2, 3]], [[6, 7]], speed=[[NAN, 3]])
    assert statistics.scalars() == {"episode/return": 2, "episode/length": 6, "info/speed": 3}
    add(statistics, [[1, 0]], [[7, 9]], [[8, 9]], speed=[[5, 5]])
    assert statistics.scalars() == {"episode/return": 7, "episode/length": 8, "info/speed": 5}


def test_what_did_not_occur_is_not_reported():
    statistics = EpisodeStatistics(["speed", "lap"], set())
    add(statistics, [[0, 0], [0, 0]], speed=[[NAN, NAN], [NAN, NAN]], lap=[[NAN, 1], [NAN, NAN]])
    assert statistics.scalars() == {"info/lap": 1}


def test_means_are_exact_for_many_numbers():
    statistics = EpisodeStatistics(["speed"], set())
    for _ in range(3):
        add(statistics, np.zeros((1000, 100)), speed=np.full((1000, 100), 16_777_217 / 2**24))
    expected = float(np.float32(16_777_217 / 2**24))
    assert statistics.scalars() == {"info/speed": pytest.approx(expected, rel=1e-12)}


def test_an_unknown_key_issues_one_warning_with_the_known_names():
    names = set()  # The environments add names while they are stepped.
    statistics = EpisodeStatistics(["sped", "lap"], names)

    def scalars():
        add(statistics, [[0]], sped=[[NAN]], lap=[[2]])
        return statistics.scalars()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scalars() == {"info/lap": 2}  # There may be no info yet.
    names |= {"speed", "lap", "name"}
    with pytest.warns(
        UserWarning, match="no info had a number 'sped' so far; names in infos: lap, name, speed"
    ) as issued:
        assert scalars() == {"info/lap": 2}
        assert scalars() == {"info/lap": 2}
    assert len(issued) == 1


@pytest.fixture
def clock(monkeypatch):
    times = [50.0]
    monkeypatch.setattr(training_statistics.time, "perf_counter", lambda: times[0])
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
    with shares.measuring("logging"):
        clock[0] += 4.0  # Before the report.
        assert shares.report() == {}
        clock[0] += 1.0
    clock[0] += 1.0
    assert shares.report() == {"time/logging": 0.5}
