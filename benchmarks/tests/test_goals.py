from benchmarks import goals
from benchmarks.processes import FinishedProcess


def test_a_seed_that_misses_the_goal_counts_with_its_whole_time_and_is_named(monkeypatch):
    returns = {0: [-900.0, -190.0], 1: [-900.0, -210.0], 2: [-150.0, -140.0]}

    def train(*settings):
        seed = int(settings[-1].removeprefix("--seed="))
        rows = [
            {"wall_time": 100.0 + 5 * (index + 1), "eval/return_mean": each}
            for index, each in enumerate(returns[seed])
        ]
        return FinishedProcess(started=100.0, seconds=12.0, peak=0.0, output=""), rows

    monkeypatch.setattr(goals.processes, "train", train)
    (measure,) = goals.pendulum()
    assert measure(0.0) == (0.0, "")  # The warm-up uses no seed.
    assert measure(1.0) == (10.0, "")
    assert measure(1.0) == (12.0, "not reached by seed 1")
    assert measure(1.0) == (5.0, "not reached by seed 1")
