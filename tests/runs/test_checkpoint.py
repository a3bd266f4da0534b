import contextlib

import numpy as np
import pytest
import tensorflow as tf

from agents.errors import NonFiniteError, RunLostError, UsageError
from agents.runs.checkpoint import Checkpoints
from tests.fingerprint import fingerprint


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
    return sorted(int(path.stem.removeprefix("step-")) for path in folder.glob("step-*.npz"))


def test_a_step_may_be_saved_again_after_a_resume(tmp_path):
    variables = make_variables(5.0)
    assert not Checkpoints(tmp_path / "checkpoints", variables).load()
    assert int(variables["run/steps"]) == 5
    write(tmp_path, [100, 200])
    write(tmp_path, [200])
    assert Checkpoints(tmp_path, variables).load()
    assert int(variables["run/steps"]) == 200
    assert steps_in(tmp_path) == [100, 200]


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


def test_without_an_intact_checkpoint_training_does_not_start_over(tmp_path):
    write(tmp_path, [100])
    (tmp_path / "step-100.npz").write_bytes(b"")
    variables = make_variables(5.0)
    with pytest.warns(UserWarning, match="no checkpoint .* step-100.npz"):
        with pytest.raises(UsageError, match="start over") as caught:
            Checkpoints(tmp_path, variables).load()
    assert len(str(caught.value).splitlines()) <= 3
    with pytest.raises(UsageError):
        Checkpoints(tmp_path / "empty", variables).load(required=True)
    assert int(variables["run/steps"]) == 5


def test_a_skipped_checkpoint_is_named_and_replaced_later(tmp_path):
    write(tmp_path, [100, 200, 300, 400, 500])
    for step in (400, 500):
        (tmp_path / f"step-{step}.npz").write_bytes(b"damaged")
    variables = make_variables()
    checkpoints = Checkpoints(tmp_path, variables)
    with pytest.warns(UserWarning, match="step-500.npz .*step-400.npz .*; step-300.npz is used"):
        assert checkpoints.load()
    for step in (350, 400):
        variables["run/steps"].assign(step)
        checkpoints.save(step)
    assert steps_in(tmp_path) == [100, 200, 300, 350, 400]
    assert checkpoints.load() and int(variables["run/steps"]) == 400


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "complex64"])
def test_numbers_that_are_not_finite_are_never_saved(tmp_path, dtype, value):
    variable = tf.Variable(tf.cast([1.0, 2.0], dtype))
    checkpoints = Checkpoints(tmp_path, {"half": variable})
    assert checkpoints.save(100)
    before = sorted(tmp_path.rglob("*"))
    variable.assign(tf.cast([1.0, value], dtype))
    with pytest.raises(NonFiniteError, match="half .* step 200"):
        checkpoints.save(200)
    assert sorted(tmp_path.rglob("*")) == before


def test_all_types_and_names_are_loaded_as_they_were_saved(tmp_path):
    def make(fill):
        names = ("a/b.c %", "file", "\u00fc", "@step", "step", "x/..")
        dtypes = ("float32", "bfloat16", "int8", "bool", "uint64", "complex64")
        shapes = ([2, 3], [4], [], [1, 0], [1], [2])
        return {
            name: tf.Variable(tf.cast(tf.fill(shape, fill), dtype))
            for name, dtype, shape in zip(names, dtypes, shapes, strict=True)
        }

    saved, loaded = make(1.0), make(0.0)
    Checkpoints(tmp_path, saved).save(7)
    assert Checkpoints(tmp_path, loaded).load()
    assert fingerprint(loaded) == fingerprint(saved)


def test_a_folder_that_is_moved_during_a_save_is_not_taken_for_a_full_disk(tmp_path):
    def check_in_place():
        if not (tmp_path / "run").exists():
            raise RunLostError(tmp_path / "run", None)
        (tmp_path / "run").rmdir()

    (tmp_path / "run").mkdir()
    folder = tmp_path / "run" / "checkpoints"
    with pytest.raises(RunLostError):
        Checkpoints(folder, make_variables(), check_in_place=check_in_place).save(100)


def test_a_full_disk_loses_nothing_but_that_checkpoint(small_disk):
    variables = make_variables(size=10_000)
    checkpoints = Checkpoints(small_disk, variables)
    assert checkpoints.save(100)
    fill = small_disk / "fill"
    with contextlib.suppress(OSError), fill.open("wb", 0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.warns(UserWarning, match="step 200 could not be saved .*No space") as issued:
        assert not checkpoints.save(200)
    assert len(issued) == 1
    assert {path.name for path in small_disk.iterdir()} == {"fill", "step-100.npz"}
    assert checkpoints.load()
    fill.unlink()
    assert checkpoints.save(300)
    assert steps_in(small_disk) == [100, 300]
