import io
import sys

import pytest

from agents.training import console as console_module
from agents.training.console import Console

SCORE = {"eval/return_mean": -150.04, "eval/return_std": 20.06, "eval/length_mean": 200.0}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_prints_a_line_for_every_evaluation(capsys):
    console = Console(100_000, 0)
    console.evaluated(5_000, 0.0, SCORE)  # Resumed in the evaluation.
    console.evaluated(10_000, 2_000.0, SCORE)
    console.update(20_000, {"episode/return": -1234.56})
    console.evaluated(100_000, 2_500.4, {**SCORE, "eval/info/success": 0.95})
    console.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "step 5,000: evaluation -150.0 +- 20.1, training episodes not reported yet",
        "step 10,000: evaluation -150.0 +- 20.1, training episodes not reported yet, 2,000 steps/s, 45 s left",
        "step 100,000: evaluation -150.0 +- 20.1, success 0.950, training episodes -1234.6, 2,500 steps/s, done",
    ]


def test_shows_a_progress_bar_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    console = Console(100_000, 40_000)
    console.update(50_000, {"episode/return": -321.0, "losses/policy": 0.1})
    console.evaluated(60_000, 2_000.0, SCORE)
    console.close()
    shown = terminal.getvalue()
    assert shown.count("\n") <= 2  # After the evaluation's line, and at the end of the bar.
    assert "step 60,000: evaluation -150.0 +- 20.1" in shown
    last = shown.rstrip("\n").rpartition("\r")[2]
    for part in ("60000/100000", "steps/s", "return=-321.0", "evaluation=-150.0"):
        assert part in last


@pytest.fixture
def clock(monkeypatch):
    """A clock to set, in place of the real one."""
    times = [100.0]
    monkeypatch.setattr(console_module.time, "monotonic", lambda: times[0])
    return times


def test_prints_lines_during_an_evaluation_that_takes_long(capsys, clock):
    progress = Console(100_000, 0).evaluation(20_000, num_episodes=20)
    for seconds in range(0, 75, 5):
        clock[0] = 100.0 + seconds
        progress(50 * seconds, seconds // 5)
    assert capsys.readouterr().err.splitlines() == [
        "step 20,000: evaluating, 500 steps each, 2 of 20 episodes finished",
        "step 20,000: evaluating, 2,000 steps each, 8 of 20 episodes finished",
        "step 20,000: evaluating, 3,500 steps each, 14 of 20 episodes finished",
    ]


def test_shows_a_long_evaluation_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(console_module, "LIVE_SECONDS", 0.0)
    console = Console(100_000, 0)
    console.evaluation(20_000, num_episodes=20)(1_500, 3)
    assert "evaluating: 1,500 steps each, 3 of 20 episodes finished" in terminal.getvalue()
    console.evaluated(20_000, 2_000.0, SCORE)
    assert "evaluating" not in terminal.getvalue().rpartition("\r")[2]
    console.close()


def test_the_bar_moves_before_the_first_log_point(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    console = Console(100_000, 0)
    assert "compiling" in terminal.getvalue()
    console.move(2_048)
    console._bar.refresh()
    last = terminal.getvalue().rpartition("\r")[2]
    assert "2048/100000" in last and "compiling" not in last
    console.close()
