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


@pytest.mark.slow  # tests/scripts/test_bad_command_lines.py has short ones.
def test_all_bad_command_lines(tmp_path):
    (tmp_path / "bad_module.py").write_text(MODULE)
    (tmp_path / "exits.py").write_text("raise SystemExit(0)")
    (tmp_path / "file.yaml").write_text("- 1\n")
    RunDirectory(tmp_path / "run").prepare(load_config("default"))
    early = [("train", ["--logdir=logs", *line], word) for line, word in EARLY]
    early += [("visualize", line, word) for line, word in VISUALIZE]
    late = [("train", ["--logdir=logs", *line], word) for line, word in LATE]
    early_cpu, early_wall = zip(*(run_line(tmp_path, *case) for case in early), strict=True)
    late_cpu, late_wall = zip(*(run_line(tmp_path, *case) for case in late), strict=True)
    slowest = early_cpu.index(max(early_cpu))
    record(
        "bad command lines",
        early=len(early),
        early_median_seconds=round(statistics.median(early_wall), 2),
        early_most_processor_seconds=round(max(early_cpu), 2),
        slowest_early=re.sub(r"\s+", " ", " ".join(early[slowest][1])),
        early_over_1_second=sum(wall > EARLY_SECONDS for wall in early_wall),
        late=len(late),
        late_median_seconds=round(statistics.median(late_wall), 2),
        late_most_processor_seconds=round(max(late_cpu), 2),
        late_over_8_seconds=sum(wall > LATE_SECONDS for wall in late_wall),
        run_folders_left=0,
    )
    # Processor time: others' work on the machine does not prolong it.
    assert statistics.median(early_cpu) < EARLY_SECONDS
    assert statistics.median(late_cpu) < LATE_SECONDS
    assert len(early) + len(late) >= 50
