import json

import pytest

from benchmarks.clock_runs import Episode, Run, RunFile, points_of, steps_within


def test_scores_are_means_of_the_last_20_episodes_that_finished_by_then():
    # An episode every half second, whose return is its number.
    episodes = [Episode(0.5 * number, 10 * number, float(number)) for number in range(1, 101)]
    points = points_of(episodes, clock=60.0)
    assert [point.seconds for point in points] == list(range(1, 61))
    assert points[0] == (1.0, 20, 2, 1.5)
    assert points[19] == (20.0, 400, 40, 30.5)  # 21 to 40.
    assert points[-1] == (60.0, 1000, 100, 90.5)


def test_steps_are_extrapolated_from_the_speed_between_episodes():
    # It starts for 10 seconds, and then makes 100 steps per second.
    episodes = [Episode(10 + seconds, 100 * seconds, 0.0) for seconds in (2, 5, 20)]
    assert steps_within(episodes, 600.0) == 59_000
    for few in ([], episodes[:1], episodes[:1] * 2):
        with pytest.raises(ValueError, match=f"different times, got {len(few)}; let it run longer"):
            steps_within(few, 600.0)


def test_finished_runs_are_kept(tmp_path):
    path = tmp_path / "clock.json"
    points = points_of([Episode(3.0, 100, 1.5)], clock=60.0)
    runs = [Run("Pong", "ours", seed, 60.0, 5000, points, {"load": "0.1"}) for seed in (0, 1)]
    for run in runs:
        RunFile(path).add(run)
    assert len(json.loads(path.read_text())) == 2
    again = RunFile(path)
    assert again.runs == runs and [file.name for file in tmp_path.iterdir()] == ["clock.json"]
    assert again.find("Pong", "ours", 60.0, 1) == runs[1]
    assert again.find("Pong", "ours", 600.0, 1) is again.find("Pong", "SB3", 60.0, 1) is None
    assert again.of("Pong", "ours", 60.0) == runs
