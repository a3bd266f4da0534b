import numpy as np
import pytest

from benchmarks.other_checkout import checked_out, differences, end_in_equal_numbers
from benchmarks.runner import ROOT

# A checkout whose training command saves what it is given.
TOY = """
import os, sys
import numpy as np

logdir, *options = [argument.partition("=")[2] for argument in sys.argv[1:]]
os.makedirs(f"{logdir}/run/checkpoints")
weight = np.float32(options[-1]) * FACTOR
np.savez(f"{logdir}/run/checkpoints/step-10.npz", weight=weight, steps=np.int64(10))
np.savez(f"{logdir}/run/checkpoints/best.npz", weight=weight)
"""

needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone")


@pytest.fixture
def make_tree(tmp_path):
    def make(name, code):
        folder = tmp_path / name / "agents" / "scripts"
        folder.mkdir(parents=True)
        (folder / "train.py").write_text(code)
        return tmp_path / name

    return make


def test_arrays_differ_in_a_bit_a_type_a_shape_or_a_name():
    one = {"nan": np.float32([np.nan, 0]), "steps": np.int64(3), "weights": np.ones(2, np.float32)}
    assert differences(one, {name: array.copy() for name, array in one.items()}) == []
    for other in (-one["nan"], one["nan"].astype(np.float64), one["nan"][None]):
        assert differences(one, {**one, "nan": other}) == ["1 of 3 arrays differ: nan"]
    more = {**one, **dict.fromkeys("dabc", np.int64(0)), "steps": np.int64(4)}
    assert differences(one, more) == ["only there: a, b, c, ...", "1 of 3 arrays differ: steps"]
    assert differences(more, one)[0] == "only here: a, b, c, ..."


def test_trainings_of_two_checkouts_are_compared(make_tree):
    one, same = make_tree("one", f"FACTOR = 1\n{TOY}"), make_tree("same", f"FACTOR = 2 - 1\n{TOY}")
    other, broken = make_tree("other", f"FACTOR = 2\n{TOY}"), make_tree("broken", "import nothing")
    trainings, lines = {"of zero": ["--weight=0"], "of one": ["--weight=1"]}, []
    assert end_in_equal_numbers(one, same, lines.append, trainings)
    assert lines == ["of zero: equal checkpoints", "of one: equal checkpoints"]
    lines.clear()
    assert not end_in_equal_numbers(one, other, lines.append, trainings)
    assert lines == ["of zero: equal checkpoints", "of one: 1 of 2 arrays differ: step-10/weight"]
    lines.clear()
    assert not end_in_equal_numbers(one, broken, lines.append, trainings)
    assert "exited with code 1: ModuleNotFoundError: No module named 'nothing'" in lines[0]


@needs_git
def test_a_commit_is_checked_out_for_as_long_as_it_is_needed():
    with checked_out("HEAD") as tree:
        assert (tree / "agents" / "presets" / "pendulum.yaml").is_file()
    assert not tree.exists()


@needs_git
@pytest.mark.slow
def test_trainings_of_a_commit_equal_themselves_and_no_other():
    trainings = {"short": ["--config=pendulum", "--env-backend=tf", "--steps=4000"]}
    lines = []
    with checked_out("HEAD") as one, checked_out("HEAD") as other:
        assert end_in_equal_numbers(one, other, lines.append, trainings)
        preset = other / "configs" / "pendulum.yaml"
        preset.write_text(preset.read_text() + "\nadam_epsilon: 0.1\n")
        assert not end_in_equal_numbers(one, other, lines.append, trainings)
    assert lines[0] == "short: equal checkpoints" and "arrays differ" in lines[1]
