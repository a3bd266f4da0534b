"""Bad command lines as real processes: how they end, how much they print, and how long they take."""

import re
import statistics
import time

import pytest

from agents.runs.run_directory import RunDirectory
from agents.settings.config_file import load_config
from tests.faults.commands import Command, cpu_seconds
from tests.faults.figures import record
from tests.scripts.test_bad_command_lines import EARLY, LATE, MODULE, VISUALIZE

EARLY_SECONDS, LATE_SECONDS = 1, 8


def make_folder(folder):
    """A folder with modules and a run without checkpoints."""
    (folder / "bad_module.py").write_text(MODULE)
    (folder / "exits.py").write_text("raise SystemExit(0)")
    (folder / "file.yaml").write_text("- 1\n")
    RunDirectory(folder / "run").prepare(load_config("default"))


def run_line(folder, module, arguments, word):
    """Runs a command line; returns how long it took, in processor and other seconds."""
    cpu, start = cpu_seconds(), time.monotonic()
    with Command(folder, *arguments, module=f"agents.scripts.{module}") as command:
        code = command.wait(300)
        seconds = time.monotonic() - start
    lines = [line for line in command.new_lines() if not line.startswith("Training in")]
    assert code == 2, (arguments, command.printed())
    assert lines[0].startswith("error: ") and len(lines) <= 3 and word in command.printed()
    assert not (folder / "logs").exists() and not (folder / "videos").exists()
    return cpu_seconds() - cpu, seconds


def run(folder):
    """Runs all command lines; returns how many there are."""
    make_folder(folder)
    early = [("train", ["--logdir=logs", *line], word) for line, word in EARLY]
    early += [("visualize", line, word) for line, word in VISUALIZE]
    late = [("train", ["--logdir=logs", *line], word) for line, word in LATE]
    early_times, late_times = (
        [run_line(folder, *case) for case in cases] for cases in (early, late)
    )
    median, late_median = (
        statistics.median(wall for _, wall in times) for times in (early_times, late_times)
    )
    slowest = max(range(len(early)), key=lambda index: early_times[index][0])
    record(
        "bad command lines",
        early=len(early),
        early_median_seconds=round(median, 2),
        early_most_processor_seconds=round(early_times[slowest][0], 2),
        slowest_early=re.sub(r"\s+", " ", " ".join(early[slowest][1])),
        early_over_1_second=sum(wall > EARLY_SECONDS for _, wall in early_times),
        late=len(late),
        late_median_seconds=round(late_median, 2),
        late_most_processor_seconds=round(max(cpu for cpu, _ in late_times), 2),
        late_over_8_seconds=sum(wall > LATE_SECONDS for _, wall in late_times),
        run_folders_left=0,
    )
    # Processor time: on a machine that others use, too, commands are slower for no fault of theirs.
    assert statistics.median(cpu for cpu, _ in early_times) < EARLY_SECONDS
    assert statistics.median(cpu for cpu, _ in late_times) < LATE_SECONDS
    return len(early) + len(late)


def test_some_bad_command_lines(tmp_path):
    """Those that need TensorFlow are slow; tests/scripts/test_bad_command_lines.py has one."""
    make_folder(tmp_path)
    for line, word in (EARLY[0], EARLY[9]):
        run_line(tmp_path, "train", ["--logdir=logs", *line], word)


@pytest.mark.slow
def test_all_bad_command_lines(tmp_path):
    assert run(tmp_path) >= 50
