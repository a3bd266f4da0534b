"""The replay in checkpoints: only new rows are written, and a damaged file is never loaded."""

import os

import numpy as np
import pytest
import tensorflow as tf

from agents.errors import UsageError
from agents.learning.replay import Replay
from agents.runs.checkpoint import Checkpoints
from agents.runs.checkpoint_files import encode, find_files, read, read_record

NUM_ENVS, CAPACITY = 2, 40


class Training:
    """A replay and a counter, which are saved in a folder."""

    def __init__(self, folder):
        self.replay = Replay(CAPACITY, tf.zeros([NUM_ENVS, 3], tf.uint8), action_size=1)
        self.step = tf.Variable(0, dtype=tf.int64)
        folder.mkdir(exist_ok=True)
        self.checkpoints = Checkpoints(folder, {"step": self.step}, {}, replay=self.replay)

    def train(self, steps=5):
        """Adds steps that are numbered from the first one on."""
        first = int(self.step) + 1
        numbers = np.arange(first, first + steps)[:, None] + np.zeros([1, NUM_ENVS])  # [T, B]
        observ = tf.constant(np.repeat(numbers[..., None], 3, axis=-1), tf.uint8)
        done = tf.constant(numbers % 4 == 0)
        numbers = tf.constant(numbers, tf.float32)
        valid = tf.ones(done.shape, tf.bool)
        self.replay.add(
            observ, numbers[..., None], numbers, done, done, observ + 100, valid, observ[-1] + 1
        )
        self.step.assign_add(steps)

    def save(self, best=False):
        return self.checkpoints.save(int(self.step), best=best)

    def content(self):
        """All rows in the ring, as arrays by name."""
        stop = self.replay.written() + 1
        return self.replay.read(np.maximum(stop - self.replay.num_rows, 0), stop)


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def names(folder):
    return sorted(os.listdir(folder / "replay"), key=lambda name: int(name[5:-4]))


def test_a_replay_comes_back_after_each_checkpoint(tmp_path):
    training = Training(tmp_path)
    for count in range(12):  # The ring is full after five.
        training.train(steps=1 + count % 5)
        assert training.save()
        assert training.save()  # Nothing is new.
        resumed = Training(tmp_path)
        assert resumed.checkpoints.load()
        assert int(resumed.step) == int(training.step)
        assert_equal(resumed.content(), training.content())
        if count % 3 == 0:
            resumed.replay.cut()
            training = resumed  # Goes on from there.


def test_only_new_rows_are_written_and_old_files_go(tmp_path):
    training = Training(tmp_path)
    training.train(steps=15)
    training.save()
    (first,) = names(tmp_path)
    size = (tmp_path / "replay" / first).stat().st_size
    before = (tmp_path / "replay" / first).stat().st_mtime_ns
    training.train(steps=1)
    training.save()
    assert len(names(tmp_path)) == 2
    assert (tmp_path / "replay" / names(tmp_path)[1]).stat().st_size < size
    assert (tmp_path / "replay" / first).stat().st_mtime_ns == before
    for _ in range(20):
        training.train()
        training.save()
    # Those of the last five checkpoints, each with the rows of a ring.
    assert first not in names(tmp_path)
    assert len(names(tmp_path)) < 15
    assert_equal(loaded(tmp_path).content(), training.content())


def loaded(folder):
    resumed = Training(folder)
    resumed.checkpoints.load()
    return resumed


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def replace(path):
    """By the file of another run, which is intact."""
    folder = path.parents[1] / f"other-{path.stem}"
    other = Training(folder)
    other.train(steps=20)
    other.save()
    (name,) = names(folder)
    os.replace(folder / "replay" / name, path)


def link(path):
    os.replace(path, path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


@pytest.mark.parametrize("damage", [os.unlink, truncate, flip, replace])
def test_a_damaged_file_is_named_and_the_checkpoint_before_is_taken(tmp_path, damage):
    training = Training(tmp_path)
    for _ in range(2):
        training.train()
        training.save()
        if int(training.step) == 5:
            content = training.content()
    damage(tmp_path / "replay" / names(tmp_path)[1])
    with pytest.warns(UserWarning, match=r"step-10.npz \(replay/step-"):
        resumed = loaded(tmp_path)
    assert int(resumed.step) == 5
    assert_equal(resumed.content(), content)
    damage(tmp_path / "replay" / names(tmp_path)[0])
    with pytest.warns(UserWarning), pytest.raises(UsageError, match="is intact"):
        loaded(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"replay": 5}, {"replay": None}, {"replay": "text"}, {"replay": [1]}, {"replay": [{}]},
        {"stop": 5}, {"stop": ["5"]}, {"stop": [10**30]}, {"stop": [[1]]}, {"stop": [5.0, 5.0]},
        {"start": None}, {"start": [0]}, {"start": [-(10**15)] * 2}, {"start": [10**15] * 2},
        {"digest": ""}, {"digest": 5}, {"digest": None}, {"times": 2},
    ],
    ids=str,
)  # fmt: skip
def test_a_list_of_files_that_is_damaged_or_hostile_is_refused(tmp_path, change):
    training = Training(tmp_path)
    training.train()
    training.save()
    (file,) = find_files(tmp_path)
    entry = {**read_record(file)["replay"][0], **change}
    replay = change.get("replay", [entry] * entry.pop("times", 1))
    arrays = read(file, {"step": 8}).arrays
    file.path.write_bytes(encode(file.step, arrays, {"replay": replay}))
    with pytest.warns(UserWarning), pytest.raises(UsageError, match="is intact"):
        loaded(tmp_path)
    training.train()
    training.save()  # Looks at the list as well.
    assert int(loaded(tmp_path).step) == 10


def test_a_link_in_place_of_a_file_is_refused(tmp_path):
    training = Training(tmp_path)
    training.train()
    training.save()
    link(tmp_path / "replay" / names(tmp_path)[0])
    with pytest.raises(UsageError, match="step-"):
        loaded(tmp_path)


def test_a_full_disk_costs_a_checkpoint_only(tmp_path, monkeypatch):
    training = Training(tmp_path)
    training.train()
    training.save()

    def full(path, data):
        raise OSError(28, "No space left on device")

    training.train()
    with monkeypatch.context() as patch:
        patch.setattr("agents.runs.replay_files.write_atomically", full)
        with pytest.warns(UserWarning, match="could not be saved .*No space left"):
            assert not training.save()
    assert int(loaded(tmp_path).step) == 5
    training.train()
    assert training.save()
    assert_equal(loaded(tmp_path).content(), training.content())


def test_the_best_checkpoint_has_no_replay_and_is_not_resumed_from(tmp_path):
    training = Training(tmp_path)
    training.train()
    training.save(best=True)
    assert [file.is_best for file in find_files(tmp_path)] == [True]
    with pytest.warns(UserWarning, match="it has no replay"), pytest.raises(UsageError):
        loaded(tmp_path)


def test_a_checkpoint_between_a_cut_and_the_next_rollout_resumes_without_a_wrong_row(tmp_path):
    """As after a full disk, or where training is resumed and stopped at once."""
    training = Training(tmp_path)
    for _ in range(10):  # The ring is full after five.
        training.train()
    training.replay.cut()
    training.save()
    resumed = loaded(tmp_path)
    resumed.replay.cut()
    for one in (training, resumed):  # Equal, as if it had not stopped.
        one.train()
    assert_equal(resumed.content(), training.content())
    np.testing.assert_array_equal(resumed.replay.written(), training.replay.written())
    rows, valid = resumed.replay.draw(tf.random.Generator.from_seed(0), [1000])
    found = resumed.replay.transitions(rows, valid, discount=1.0, num_steps=1)
    steps = found.next_observ.numpy()[:, 0] - found.observ.numpy()[:, 0].astype(int)
    assert valid.numpy().all() and set(steps) <= {1, 100}


def test_files_of_large_rows_have_names_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr("agents.runs.replay_files._MAX_BYTES", 4)  # Less than a row.
    training = Training(tmp_path)
    for count in range(12):
        training.train(steps=1 + count % 5)
        assert training.save()
        assert_equal(loaded(tmp_path).content(), training.content())


def test_a_run_without_saved_replay_goes_on_with_one(tmp_path):
    training = Training(tmp_path)
    training.train()
    training.save()
    without = Checkpoints(tmp_path, {"step": training.step}, {})
    training.train()
    without.save(int(training.step))
    with pytest.warns(UserWarning, match="step-10.npz was saved without its replay"):
        resumed = loaded(tmp_path)
    assert int(resumed.step) == 10 and resumed.replay.written().max() == 0
    resumed.train()
    assert resumed.save()
    assert_equal(loaded(tmp_path).content(), resumed.content())
