import os
import socket
import subprocess
import sys

import pytest

from agents.errors import UsageError
from agents.regular_files import (
    check_folder,
    check_regular,
    open_regular,
    read_regular,
    write_atomically,
)


@pytest.fixture
def others(tmp_path):
    """Whatever is no regular file, by its name in messages."""
    (tmp_path / "outside").write_bytes(b"precious")
    paths = {name: tmp_path / name.replace(" ", "_") for name in ("a symbolic link", "a folder")}
    paths["a symbolic link"].symlink_to("outside")
    paths["a folder"].mkdir()
    paths["a named pipe"], paths["a socket"] = tmp_path / "pipe", tmp_path / "socket"
    os.mkfifo(paths["a named pipe"])
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.fspath(paths["a socket"]))
    listener.close()
    return paths


def test_only_regular_files_are_opened(others, tmp_path):
    for kind, path in others.items():
        for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT):
            with pytest.raises(UsageError, match=f"{path} is {kind}"):
                open_regular(path, flags)
        with pytest.raises(UsageError):
            read_regular(path, 10)
    check_regular(tmp_path / "missing")
    check_regular(tmp_path / "outside", in_place=True)
    assert read_regular(tmp_path / "outside", 8) == b"precious"
    with pytest.raises(UsageError, match="larger than 7 bytes"):
        read_regular(tmp_path / "outside", 7)


def test_files_with_another_link_are_read_only(tmp_path):
    (tmp_path / "outside").write_bytes(b"precious")
    os.link(tmp_path / "outside", tmp_path / "inside")
    assert read_regular(tmp_path / "inside", 10) == b"precious"
    with pytest.raises(UsageError, match="hard link"):
        open_regular(tmp_path / "inside", os.O_WRONLY)


def test_only_folders_are_folders(others, tmp_path):
    assert check_folder(tmp_path) and not check_folder(tmp_path / "missing")
    for kind in others.keys() - {"a folder"}:
        with pytest.raises(UsageError, match=f"is {kind}; expected a folder"):
            check_folder(others[kind])


def test_writing_replaces_links_and_not_what_they_lead_to(others, tmp_path):
    os.link(tmp_path / "outside", tmp_path / "hard")
    (tmp_path / f"new.{os.getpid()}.unfinished").symlink_to("outside")
    for path in (
        others["a symbolic link"],
        others["a named pipe"],
        tmp_path / "hard",
        tmp_path / "new",
    ):
        write_atomically(path, b"mine")
        assert path.read_bytes() == b"mine" and not path.is_symlink()
    assert (tmp_path / "outside").read_bytes() == b"precious"
    assert not list(tmp_path.glob("*.unfinished"))


def test_processes_write_the_same_file_at_once(tmp_path):
    code = """
import sys, pathlib
from agents.regular_files import write_atomically
for _ in range(50):
    write_atomically(pathlib.Path(sys.argv[1]), sys.argv[2].encode() * 100_000)
"""
    path = tmp_path / "shared"
    commands = [[sys.executable, "-c", code, str(path), letter] for letter in "abc"]
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert path.read_text() in [letter * 100_000 for letter in "abc"]
    assert [other.name for other in tmp_path.iterdir()] == ["shared"]


def test_writing_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_atomically(tmp_path / "folder", b"mine")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
