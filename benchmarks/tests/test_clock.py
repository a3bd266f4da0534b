import dataclasses

import pytest

from benchmarks import clock
from benchmarks.clock_plot import plot_scores, scores_over_time
from benchmarks.clock_runs import Episode, Run, points_of


def hopper(minutes):
    name = f"Hopper-v5/{minutes} of 10 min"
    return next(case for case in clock.cases(False) if case.name == name)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Programs that were watched, as (arguments, seconds); they make 100 steps per second."""
    watched = []

    def watch(program, seconds):
        watched.append((" ".join(program.arguments[2:]), seconds))
        if "clock_sb3 Hopper-v5" in watched[-1][0] and seconds == clock.CLOCK:
            raise RuntimeError("exited with code 1: no reason")
        return [Episode(float(t), 100 * t, float(t)) for t in range(1, int(seconds) + 1)]

    monkeypatch.setattr(clock, "watch", watch)
    monkeypatch.setattr(clock, "PATH", tmp_path / "clock.json")
    return watched


def test_every_run_is_made_once(programs):
    logged = []
    outcome = clock.run_case(dataclasses.replace(hopper(2), rounds=2), logged.append)
    # Episodes 101 to 120 ended within the last 20 seconds of 2 minutes.
    assert outcome.figures == {"ours": [110.5, 110.5]} and outcome.notes == {"ours": "2 seeds"}
    assert outcome.left_out["SB3"].endswith("no reason")
    ours = [seconds for arguments, seconds in programs if "clock_ours" in arguments]
    assert ours == [clock.PILOT, clock.CLOCK, clock.CLOCK]
    assert "--steps=60000 --seed=1" in programs[-1][0]
    programs.clear()
    outcome = clock.run_case(dataclasses.replace(hopper(5), rounds=2), logged.append)
    assert outcome.figures == {"ours": [290.5, 290.5]}
    assert not any("clock_ours" in arguments for arguments, _ in programs)


def test_curves_have_medians_over_seeds_where_all_have_a_score(tmp_path):
    runs = [
        Run("Pong", name, seed, 60.0, 1, points_of([Episode(10.0 * (seed + 1), 5, seed)], 60.0))
        for name in ("ours", "SB3")
        for seed in (0, 1)
    ]
    minutes, scores = scores_over_time(runs[:2])
    assert minutes[0] == pytest.approx(20 / 60) and scores.shape == (2, 41)
    plot_scores(runs).savefig(tmp_path / "clock.png")
    plot_scores([])


@pytest.mark.slow
def test_our_program_prints_episodes():
    program = clock.ours("LunarLander-v3", steps=16_384, seed=0)
    episodes = clock.watch(program, 120.0)
    assert len(episodes) > 50
    assert sorted(episode.steps for episode in episodes) == [each.steps for each in episodes]
    assert all(-1000 < episode.score < 350 for episode in episodes)
