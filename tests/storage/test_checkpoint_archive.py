import io

import numpy as np
import pytest

from agents.storage.checkpoint_archive import CheckpointReader, DamagedError, decode, encode

VALUES = {
    "network/a b.c": np.arange(6, dtype=np.float32).reshape(2, 3),
    "count": np.array(2**62),
    "flags": np.array([True, False]),
    "nothing": np.zeros((0, 3)),
}
SIZES = {name: value.nbytes for name, value in VALUES.items()}


def read(path, data, step=7, sizes=SIZES):
    path.write_bytes(data)
    with CheckpointReader(io.FileIO(path)) as file:
        return decode(file, step, sizes)


def test_arrays_are_decoded_as_they_were_encoded(tmp_path):
    content = read(tmp_path / "file", encode(7, VALUES))
    assert content.names == VALUES.keys() == content.arrays.keys()
    for name, value in VALUES.items():
        np.testing.assert_array_equal(content.arrays[name], value, strict=True)


def test_equal_values_give_equal_bytes_that_numpy_reads():
    assert encode(7, VALUES) == encode(7, dict(VALUES))
    with np.load(io.BytesIO(encode(7, VALUES))) as arrays:
        np.testing.assert_array_equal(arrays["count"], 2**62)


def test_arrays_larger_than_expected_are_left_out(tmp_path):
    large = {"small": np.zeros(2), "large": np.zeros(10_000)}
    content = read(tmp_path / "file", encode(7, large), sizes={"small": 16, "large": 16})
    assert content.names == {"small", "large"} and content.arrays.keys() == {"small"}


def test_the_step_in_the_file_counts(tmp_path):
    with pytest.raises(DamagedError, match="of another step"):
        read(tmp_path / "file", encode(7, VALUES), step=8)


def test_no_other_bit_is_read_as_intact(tmp_path):
    data = encode(7, VALUES)
    for position in range(0, len(data), 37):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(Exception):  # noqa: B017 - The library of archives raises any type.
            read(tmp_path / "file", bytes(damaged))
