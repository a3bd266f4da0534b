"""Runs of pytest in forks of one process, which has imported TensorFlow for all of them."""

import importlib
import os
import signal
import sys
import time
import traceback
from pathlib import Path

# What takes long to import. TensorFlow can be forked as long as no operation has run. Pytest's own
# plugins, such as hypothesis, are left to it: it rewrites their assertions.
IMPORTS = ("gymnasium", "keras", "numpy", "tensorflow")
# Where a checkout's packages are imported from: its copy has others.
PACKAGES = ("agents", "benchmarks", "examples", "results", "scripts", "tests")


def import_libraries() -> None:
    """Imports what tests need, once, for all forks."""
    for name in IMPORTS:
        importlib.import_module(name)


def run_tests(copy: Path, tests: list[str], timeout: float | None = None) -> bool:
    """Returns whether tests pass in a copy of the checkout.

    Args:
      copy: Folder of the copy.
      tests: Files and folders in it.
      timeout: Seconds after which they count as failed; None for no limit.
    """
    deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
    process = os.fork()
    if not process:
        _run_pytest(copy, tests)
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.killpg(process, signal.SIGKILL)  # With the processes that tests have started.
    os.waitpid(process, 0)
    return False


def _run_pytest(copy: Path, tests: list[str]) -> None:
    """Runs pytest in this process, which ends with its exit code."""
    code = 1
    try:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(silence, stream)
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
            del sys.modules[name]
        import pytest

        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    except BaseException:  # Also SystemExit: nothing of the parent's may run here.
        traceback.print_exc()
    finally:
        os._exit(code)
