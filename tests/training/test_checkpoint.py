import shutil

import numpy as np
import pytest
import tensorflow as tf

from agents.errors import UsageError
from agents.training.checkpoint import Checkpoints, fingerprint


def make_variables(fill=0.0, size=3):
    return {
        "network/kernel": tf.Variable(tf.fill([size], fill)),
        "run/steps": tf.Variable(int(fill), dtype=tf.int64),
        "run/best": tf.Variable(fill, dtype=tf.float64),
    }


def write(folder, steps):
    variables = make_variables()
    checkpoints = Checkpoints(folder, variables)
    for step in steps:
        variables["run/steps"].assign(step)
        variables["network/kernel"].assign(tf.fill([3], step / 7))
        checkpoints.save(step)
    return variables, checkpoints


def steps_in(folder):
    return sorted(int(path.stem.removeprefix("step-")) for path in folder.glob("step-*.index"))


def test_the_last_checkpoint_is_loaded_as_it_was_saved(tmp_path):
    saved, _ = write(tmp_path, [100, 200])
    loaded = make_variables()
    assert Checkpoints(tmp_path, loaded).load()
    assert int(loaded["run/steps"]) == 200
    assert fingerprint(loaded) == fingerprint(saved)


def test_without_a_checkpoint_variables_are_unchanged(tmp_path):
    variables = make_variables(5.0)
    assert not Checkpoints(tmp_path / "checkpoints", variables).load()
    assert int(variables["run/steps"]) == 5


def test_the_last_five_are_kept_across_processes(tmp_path):
    write(tmp_path, [100, 200, 300, 400])
    assert steps_in(tmp_path) == [100, 200, 300, 400]
    write(tmp_path, [500, 600, 700])
    assert steps_in(tmp_path) == [300, 400, 500, 600, 700]


def test_the_best_is_kept_separately_from_the_last(tmp_path):
    variables, checkpoints = write(tmp_path, [100])
    checkpoints.save(100, best=True)
    for step in range(200, 900, 100):
        checkpoints.save(step)
    assert steps_in(tmp_path / "best") == [100]
    Checkpoints(tmp_path, variables).save(900, best=True)
    assert steps_in(tmp_path / "best") == [900]
    assert steps_in(tmp_path) == [400, 500, 600, 700, 800]


def test_a_step_may_be_saved_again_after_a_resume(tmp_path):
    write(tmp_path, [100, 200])
    variables, _ = write(tmp_path, [200])
    variables["run/steps"].assign(0)
    assert Checkpoints(tmp_path, variables).load()
    assert int(variables["run/steps"]) == 200
    assert steps_in(tmp_path) == [100, 200]


def test_a_run_may_be_moved(tmp_path):
    write(tmp_path / "here", [100])
    shutil.move(tmp_path / "here", tmp_path / "there")
    variables = make_variables()
    assert Checkpoints(tmp_path / "there", variables).load()
    assert int(variables["run/steps"]) == 100


def test_files_of_a_process_killed_while_saving_are_ignored(tmp_path):
    write(tmp_path, [100])
    (tmp_path / "step-200_temp").mkdir()
    (tmp_path / "step-200_temp" / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"half")
    (tmp_path / "step-200.data-00000-of-00001").write_bytes(b"half")
    variables = make_variables()
    assert Checkpoints(tmp_path, variables).load()
    assert int(variables["run/steps"]) == 100
    variables, _ = write(tmp_path, [200])
    assert Checkpoints(tmp_path, make_variables()).load()


@pytest.mark.parametrize("change", ["shape", "missing", "new"])
def test_variables_that_do_not_fit_are_refused(tmp_path, change):
    write(tmp_path, [100])
    variables = make_variables(size=4 if change == "shape" else 3)
    if change == "missing":
        del variables["run/best"]
    if change == "new":
        variables["run/worst"] = tf.Variable(0.0)
    with pytest.raises(UsageError, match="does not fit") as caught:
        Checkpoints(tmp_path, variables).load()
    assert len(str(caught.value).splitlines()) <= 3


def test_a_damaged_checkpoint_is_refused(tmp_path):
    write(tmp_path, [100])
    (tmp_path / "step-100.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(UsageError, match="step-100") as caught:
        Checkpoints(tmp_path, make_variables()).load()
    assert len(str(caught.value).splitlines()) <= 3


def test_fingerprints_differ_for_the_smallest_differences():
    variables = make_variables(1.0)
    same = fingerprint(variables)
    assert (
        same == fingerprint(dict(reversed(variables.items()))) == fingerprint(make_variables(1.0))
    )
    variables["network/kernel"].assign([1.0, 1.0, np.nextafter(np.float32(1), np.float32(2))])
    assert fingerprint(variables) != same
    assert fingerprint({"a": tf.Variable([0.0])}) != fingerprint({"a": tf.Variable([-0.0])})
    assert fingerprint({"a": tf.Variable(0.0)}) != fingerprint({"b": tf.Variable(0.0)})
