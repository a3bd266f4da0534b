import contextlib
import time

import pytest

from benchmarks.peers.script import Script

PROGRAM = """
import pathlib, time
for iteration in range(10_000):
    time.sleep(0.05)
    pathlib.Path("iterations").write_text(str(iteration + 1))
    print("a remark")
    print("speed:", iteration)
"""


def test_whole_iterations_are_measured_and_the_program_rests_in_between(tmp_path):
    with contextlib.closing(Script(["-c", PROGRAM], "^speed: ", 50, tmp_path)) as script:
        script.warm_up()
        # 1,000 steps/s; a reader that is late for the first line sees up to twice as many.
        assert 100 < script.measure(0.3) <= 2000
        iterations = int((tmp_path / "iterations").read_text())
        assert iterations > 3
        time.sleep(0.3)
        assert int((tmp_path / "iterations").read_text()) <= iterations + 1
        assert 100 < script.measure(0.3) <= 2000


def test_a_program_that_ends_is_an_error_with_its_last_line(tmp_path):
    program = "print('speed: 1'); print('speed: 2'); raise SystemExit('error: no more')"
    with contextlib.closing(Script(["-c", program], "^speed: ", 50, tmp_path)) as script:
        script.warm_up()
        with pytest.raises(RuntimeError, match="exited with code 1: error: no more"):
            script.measure(1.0)
