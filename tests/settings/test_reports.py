import os
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

from agents.errors import (
    EnvironmentFailure,
    EnvironmentRaisedError,
    NonFiniteError,
    UsageError,
)
from agents.settings.reports import report_error, run
from agents.stop_signals import StopRequested


@pytest.mark.filterwarnings("always")  # Elsewhere in the tests they are errors.
def test_run_prints_warnings_for_users_in_one_line(capsys):
    def main(arguments):
        warnings.warn("rewards are large", stacklevel=1)
        warnings.warn("old", FutureWarning, stacklevel=1)

    run(main, [])
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first == "warning: rewards are large"
    assert Path(second.split(":")[0]).name == "test_reports.py" and second.endswith(
        "FutureWarning: old"
    )


@pytest.mark.parametrize(
    ("error", "code", "first", "num_lines"),
    [
        (NonFiniteError("The loss is nan\nin the update"), 1, "error: The loss is nan", 2),
        (UsageError("first\nsecond\nthird\nfourth"), 2, "error: first", 3),
        (
            EnvironmentFailure("It broke", 3, 12),
            1,
            "error: It broke (environment 3, process 12)",
            1,
        ),
        (EnvironmentRaisedError("It raised", "x\n" * 99, 3, "KeyError"), 1, "error: It raised", 1),
        (KeyboardInterrupt(), 130, "Interrupted.", 1),
        (StopRequested(signal.SIGTERM), 143, "Interrupted.", 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_run_reports_all_errors_of_the_library(capsys, error, code, first, num_lines):
    def main(arguments):
        raise error

    with pytest.raises(SystemExit) as caught:
        run(main, [])
    assert caught.value.code == code
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(first) and len(lines) == num_lines


def test_hints_follow_an_error(capsys):
    error = EnvironmentFailure("\n".join(map(str, range(99))))
    assert report_error(error, "Try this", "Or this") == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("error: 0") and lines[-2:] == ["Try this", "Or this"]
    assert len(lines) <= 9


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_pipe_does_not_end_a_command(stream):
    """As that of `agents train | head`, or a terminal."""
    code = f"""
        import sys
        from agents.settings.reports import run

        def main(arguments):
            for _ in range(2):
                print("into nothing", file=sys.{stream}, flush=True)
            raise SystemExit(7)

        run(main, [])
        """
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], **{stream: write}, text=True
    )
    os.close(write)
    assert process.returncode == 7
