import contextlib
import os

import pytest

from agents.runs import append_file
from agents.runs.append_file import AppendFile, cut

RECORDS = [f"{index:05} ".encode() + b"x" * 3000 + b"\n" for index in range(200)]


def test_records_are_appended_at_once(tmp_path):
    path = tmp_path / "file"
    file = AppendFile(path, b"start\n")
    file.append(b"one\n")
    assert path.read_bytes() == b"start\none\n"
    file.close()
    other = AppendFile(path)
    other.append(b"two\n")
    other.close()
    assert path.read_bytes() == b"start\none\ntwo\n"


def fill(folder):
    path = folder / "fill"
    with contextlib.suppress(OSError), path.open("wb", 0) as file:
        while True:
            file.write(bytes(4096))
    return path


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "created on a full disk"])
def test_a_full_disk_loses_nothing_and_issues_one_warning(small_disk, is_open):
    path = small_disk / "records"
    file = AppendFile(path) if is_open else None
    filled = fill(small_disk)
    with pytest.warns(UserWarning, match="records .No space left") as issued:
        file = file or AppendFile(path)
        for record in RECORDS[:30]:
            file.append(record)
            assert path.read_bytes() == b""
        filled.unlink()
        file.append(RECORDS[30])
        assert path.read_bytes() == b"".join(RECORDS[:31])
        file.close()
    assert len(issued) == 1
    assert path.read_bytes() == b"".join(RECORDS[:31])


def test_a_disk_that_fills_up_has_whole_records_and_closing_tells_what_is_missing(small_disk):
    path = small_disk / "records"
    with pytest.warns(UserWarning) as issued:
        file = AppendFile(path)
        for record in RECORDS:
            file.append(record)
        file.close()
    written = path.read_bytes()
    num_written, rest = divmod(len(written), len(RECORDS[0]))
    assert 70 < num_written < 90 and not rest  # 256 KiB.
    assert written == b"".join(RECORDS[:num_written])
    first, last = (str(warning.message) for warning in issued)
    assert "No space left" in first and f"{len(RECORDS) - num_written} records of" in last


def test_what_is_kept_is_bounded(small_disk, monkeypatch):
    monkeypatch.setattr(append_file, "MAX_PENDING_BYTES", 10_000)
    filled = fill(small_disk)
    with pytest.warns(UserWarning) as issued:
        file = AppendFile(small_disk / "records")
        for record in RECORDS:
            file.append(record)
        filled.unlink()
        file.close()
    assert "197 records of" in str(issued[-1].message)
    assert (small_disk / "records").read_bytes() == b"".join(RECORDS[:3])


@pytest.mark.parametrize("size, kept", [(2, b"ab"), (9, b"abc")])
def test_cutting(tmp_path, size, kept):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    cut(path, size)
    assert path.read_bytes() == kept


@pytest.mark.parametrize(
    ("change", "said", "left"),
    [
        (lambda path: path.unlink(), "removed or replaced", b""),
        (lambda path: path.rename(path.with_name("other")), "removed or replaced", b""),
        (lambda path: os.replace(path.with_name("new"), path), "removed or replaced", b"new\n"),
        (lambda path: os.truncate(path, 4), "shortened", b"one\n"),
        (lambda path: path.write_bytes(b""), "shortened", b""),
    ],
)
def test_a_file_that_is_changed_meanwhile_goes_on_with_a_warning(tmp_path, change, said, left):
    path = tmp_path / "file"
    path.with_name("new").write_bytes(b"new\n")
    file = AppendFile(path)
    file.append(b"one\n")
    file.append(b"two\n")
    change(path)
    with pytest.warns(UserWarning, match=f"file was {said} during training") as issued:
        file.append(b"three\n")
        file.append(b"four\n")
        file.close()
    assert path.read_bytes() == left + b"three\nfour\n"
    assert len(issued) == 1


def test_no_folder_is_made_for_a_file(tmp_path):
    with pytest.warns(UserWarning, match="can't write .*No such file"):
        AppendFile(tmp_path / "moved" / "file")
    assert not list(tmp_path.iterdir())
