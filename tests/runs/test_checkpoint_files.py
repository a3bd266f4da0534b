import io
import zipfile

import numpy as np
import pytest

from agents.runs.checkpoint_files import (
    KEPT,
    KEPT_EARLIER,
    CheckpointFile,
    DamagedError,
    encode,
    find_files,
    newest_intact,
    newest_record,
    read,
    spread,
    write,
)

VALUES = {
    "network/a b.c": np.arange(6, dtype=np.float32).reshape(2, 3),
    "count": np.array(2**62),
    "flags": np.array([True, False]),
    "nothing": np.zeros((0, 3)),
}
SIZES = {name: value.nbytes for name, value in VALUES.items()}
RECORD = {"settings": {"seed": 3}, "spaces": {}}


def read_bytes(folder, data, step=7, sizes=SIZES):
    file = CheckpointFile(folder, step, is_best=False)
    file.path.write_bytes(data)
    return read(file, sizes)


def steps(folder, best=False):
    return [file.step for file in find_files(folder) if file.is_best == best]


def test_arrays_are_read_as_they_were_written(tmp_path):
    write(tmp_path, 7, VALUES, best=False, record=RECORD)
    file, content = newest_intact(tmp_path, SIZES)
    assert file == CheckpointFile(tmp_path, 7, is_best=False)
    assert content.names == VALUES.keys() == content.arrays.keys()
    for name, value in VALUES.items():
        np.testing.assert_array_equal(content.arrays[name], value, strict=True)
    assert newest_record(tmp_path) == RECORD


def test_equal_values_give_equal_bytes_that_numpy_reads():
    assert encode(7, VALUES, RECORD) == encode(7, dict(VALUES), RECORD)
    with np.load(io.BytesIO(encode(7, VALUES))) as arrays:
        np.testing.assert_array_equal(arrays["count"], 2**62)


def test_arrays_larger_than_expected_are_left_out(tmp_path):
    large = {"small": np.zeros(2), "large": np.zeros(10_000)}
    content = read_bytes(tmp_path, encode(7, large), sizes={"small": 16, "large": 16})
    assert content.names == {"small", "large"} and content.arrays.keys() == {"small"}


def test_no_byte_may_differ(tmp_path):
    data = encode(7, VALUES, RECORD)
    read_bytes(tmp_path, data)
    damaged = [data[:size] for size in range(0, len(data), 31)]
    damaged += [data + b"a", data + data, b"damaged", bytes(len(data)), encode(8, VALUES, RECORD)]
    for place in range(0, len(data), 7):
        damaged.append(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
    for other in damaged:
        with pytest.raises(DamagedError):
            read_bytes(tmp_path, other)


def test_a_record_is_that_of_the_newest_checkpoint_that_can_be_read(tmp_path):
    assert newest_record(tmp_path) == {}
    for step in (1, 2):
        write(tmp_path, step, VALUES, best=False, record={"settings": {"seed": step}})
    assert newest_record(tmp_path) == {"settings": {"seed": 2}}
    data = find_files(tmp_path)[0].path.read_bytes()
    for place in range(data.index(b"settings") - 2, data.index(b"seed") + 9):
        find_files(tmp_path)[0].path.write_bytes(data[:place] + b"#" + data[place + 1 :])
        assert newest_record(tmp_path) == {"settings": {"seed": 1}}


@pytest.mark.parametrize("count", [3, 10, 11, 50, 200])
def test_the_last_five_are_kept_and_five_spread_over_those_before(tmp_path, monkeypatch, count):
    # Disks are not what this is about.
    monkeypatch.setattr("agents.runs.checkpoint_files.encode", lambda *arguments: b"")
    monkeypatch.setattr("agents.regular_files.os.fsync", lambda descriptor: None)
    numbers = range(10, 10 * count + 1, 10)
    for step in numbers:
        write(tmp_path, step, {}, best=False)
        write(tmp_path, step, {}, best=True)
    assert steps(tmp_path, best=True) == [numbers[-1]]
    kept = sorted(steps(tmp_path))
    assert len(kept) <= KEPT + KEPT_EARLIER
    assert kept[-5:] == list(numbers[-5:]) and len(kept) == min(count, 10)
    gaps = np.diff([0, *kept[:-4]])  # Up to the oldest of the last five.
    assert count < 10 or gaps.max() <= 1.8 * gaps.mean()


def test_spread_steps_keep_the_last_one():
    assert spread([10, 20, 30], 3) == spread([10, 20, 30], 9) == [10, 20, 30]
    assert spread([10, 20, 900, 950, 1000], 2) == [900, 1000]
    assert spread(range(10, 101, 10), 5) == [20, 40, 60, 80, 100]
    assert spread([], 3) == []


def test_archives_of_too_many_arrays_are_skipped_before_they_are_listed(tmp_path):
    data = encode(7, {f"{number:0500}": np.zeros(0) for number in range(2_000)})
    with pytest.raises(DamagedError, match="it has too many arrays"):
        read_bytes(tmp_path, data)


def test_compressed_arrays_are_not_expanded(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_STORED", zipfile.ZIP_DEFLATED)
    data = encode(7, {"count": np.zeros(10_000)})
    monkeypatch.undo()
    with pytest.raises(DamagedError, match="it is compressed"):
        read_bytes(tmp_path, data, sizes={"count": 80_000})
