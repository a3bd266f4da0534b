import textwrap

import pytest

from benchmarks.case import Case, Contestant
from benchmarks.peers import installation

CONTESTANTS = """
    import os, subprocess, sys

    def succeeds(log, name, value=1.0):
        print("output of a library")
        def measure(seconds):
            with open(log, "a") as file:
                file.write(f"{name} {seconds:g}\\n")
            return value, f"{name} on {len(os.sched_getaffinity(0))}"
        yield measure
        with open(log, "a") as file:
            file.write(f"{name} closed\\n")

    def has_parts():
        from benchmarks.contestant import Measurement
        yield lambda seconds: Measurement(seconds, "a note", {"ms update": 2 * seconds})

    def not_installed():
        import no_such_package
        yield lambda seconds: 1.0

    def raises_later():
        calls = []
        def measure(seconds):
            calls.append(seconds)
            return 1.0 if len(calls) < 3 else 1 / 0
        yield measure

    def dies():
        def measure(seconds):
            print("Segmentation fault, more or less", file=sys.stderr, flush=True)
            os._exit(11)
        yield measure

    def dies_with_a_fork_that_holds_the_pipe():
        if os.fork() == 0:
            import time
            time.sleep(60)
            os._exit(0)
        os._exit(5)
        yield

    def hangs():
        import time
        yield time.sleep(60)

    def leaves_a_process(path):
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        with open(path, "w") as file:
            file.write(str(process.pid))
        yield lambda seconds: 1.0
"""


@pytest.fixture(autouse=True)
def no_peers(tmp_path, monkeypatch):
    """Hides environments of peers that this machine may have."""
    monkeypatch.setenv(installation.VARIABLE, str(tmp_path / "no peers"))


@pytest.fixture
def make_case(tmp_path, monkeypatch):
    """Makes a case of contestants, given their functions, or functions and settings, by name."""
    (tmp_path / "the_contestants.py").write_text(textwrap.dedent(CONTESTANTS))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(rounds=2, cores=None, **functions):
        contestants = []
        for name, entry in functions.items():
            function, settings = (entry, {}) if isinstance(entry, str) else entry
            contestants.append(Contestant(name, f"the_contestants:{function}", settings, cores))
        return Case("case", "steps/s", tuple(contestants), rounds, seconds=0.5)

    return make
