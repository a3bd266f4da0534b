import hashlib

import numpy as np
import pytest

from agents.errors import UsageError
from agents.storage.checkpoint_files import (
    KEPT,
    KEPT_EARLIER,
    MANIFEST,
    DamagedError,
    find_files,
    is_used,
    newest_intact,
    read,
    read_manifest,
    spread,
    write,
)

SIZES = {"weight": 4}


def values(step):
    return {"weight": np.float32(step)}


def steps(folder, best=False):
    return [file.step for file in find_files(folder) if file.is_best == best]


def test_what_is_kept_is_listed_with_its_checksum(tmp_path):
    for step in range(1, 20):
        write(tmp_path, step, values(step), best=False)
    write(tmp_path, 2, values(2), best=True)
    write(tmp_path, 4, values(4), best=True)
    assert len(steps(tmp_path)) == KEPT + KEPT_EARLIER and steps(tmp_path, best=True) == [4]
    manifest = read_manifest(tmp_path)
    assert manifest.keys() == {file.listed_name for file in find_files(tmp_path)}
    for file in find_files(tmp_path):
        data = file.path.read_bytes()
        assert manifest[file.listed_name] == (len(data), hashlib.sha256(data).hexdigest())
        assert read(file, manifest, SIZES).arrays["weight"] == file.step


@pytest.mark.parametrize("count", [3, 10, 11, 50, 200])
def test_the_last_five_are_kept_and_five_spread_over_those_before(tmp_path, monkeypatch, count):
    # Disks are not what this is about.
    monkeypatch.setattr("agents.storage.checkpoint_files.encode", lambda *arguments: b"")
    monkeypatch.setattr("agents.regular_files.os.fsync", lambda descriptor: None)
    numbers = range(10, 10 * count + 1, 10)
    for step in numbers:
        write(tmp_path, step, {}, best=False)
    kept = sorted(steps(tmp_path))
    assert kept[-5:] == list(numbers[-5:]) and len(kept) == min(count, 10)
    gaps = np.diff([0, *kept[:-4]])  # Up to the oldest of the last five.
    assert count < 10 or gaps.max() <= 1.8 * gaps.mean()


def test_spread_steps_keep_the_last_one():
    assert spread([10, 20, 30], 3) == spread([10, 20, 30], 9) == [10, 20, 30]
    assert spread([10, 20, 900, 950, 1000], 2) == [900, 1000]
    assert spread(range(10, 101, 10), 5) == [20, 40, 60, 80, 100]
    assert spread([], 3) == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"checkpoints": 3}', '{"checkpoints": {"../x.npz": [1, "a"]}}', "[" * 100_000],
)
def test_a_damaged_manifest_is_none(tmp_path, text):
    assert read_manifest(tmp_path) is None and not is_used(tmp_path)
    (tmp_path / MANIFEST).write_text(text)
    assert read_manifest(tmp_path) is None
    assert is_used(tmp_path)  # There were checkpoints.


def test_a_file_that_the_manifest_does_not_fit_is_damaged_and_skipped(tmp_path):
    for step in (1, 2):
        write(tmp_path, step, values(step), best=False)
    newest, older = find_files(tmp_path)
    newest.path.write_bytes(older.path.read_bytes())
    with pytest.raises(DamagedError):
        read(newest, read_manifest(tmp_path), SIZES)
    with pytest.warns(UserWarning, match=r"step-2"):
        file, content = newest_intact(tmp_path, [newest, older], SIZES)
    assert file == older and content.arrays["weight"] == 1


def test_a_checkpoint_that_is_a_link_is_refused(tmp_path):
    write(tmp_path / "own", 1, values(1), best=False)
    [file] = find_files(tmp_path / "own")
    file.path.rename(tmp_path / "elsewhere")
    file.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="link"):
        read(file, {}, SIZES)
