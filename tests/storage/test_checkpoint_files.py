import hashlib

import numpy as np
import pytest

from agents.errors import UsageError
from agents.storage.checkpoint_files import (
    KEPT,
    MANIFEST,
    DamagedError,
    find_files,
    is_used,
    newest_intact,
    read,
    read_manifest,
    write,
)

SIZES = {"weight": 4}


def values(step):
    return {"weight": np.float32(step)}


def steps(folder, best=False):
    return [file.step for file in find_files(folder) if file.is_best == best]


def test_the_newest_are_kept_and_listed_with_their_checksums(tmp_path):
    for step in range(1, KEPT + 3):
        write(tmp_path, step, values(step), best=False)
    write(tmp_path, 2, values(2), best=True)
    write(tmp_path, 4, values(4), best=True)
    assert steps(tmp_path) == list(range(KEPT + 2, 2, -1)) and steps(tmp_path, best=True) == [4]
    manifest = read_manifest(tmp_path)
    assert manifest.keys() == {file.listed_name for file in find_files(tmp_path)}
    for file in find_files(tmp_path):
        data = file.path.read_bytes()
        assert manifest[file.listed_name] == (len(data), hashlib.sha256(data).hexdigest())
        assert read(file, manifest, SIZES).arrays["weight"] == file.step


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
