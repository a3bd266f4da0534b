"""Which Ray cluster a command finds; and what it says if it can't be used."""

import importlib.util
import os
import subprocess
import sys

import pytest

from agents.distributed import ray_session
from agents.errors import UsageError
from tests.distributed.learners import free_addresses


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where `ray start` writes the address of its cluster."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "ray").mkdir()
    return tmp_path / "ray"


def connect():
    with ray_session.connected():
        pass


@pytest.fixture
def installed(monkeypatch):
    """Ray, as far as this module asks."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs the package ray, .*\n.*install .*\[ray\]'"):
        connect()


def test_ray_is_not_imported_unless_it_is_asked_for():
    code = "import sys, agents.scripts.learner; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_cluster_of_this_machine_is_found(folder):
    assert ray_session.running_cluster() == ("", "")
    (folder / "ray_current_cluster").write_text("10.0.0.1:6379\n")
    assert ray_session.running_cluster() == (str(folder / "ray_current_cluster"), "10.0.0.1:6379")


def test_the_environment_variable_comes_first(folder, monkeypatch):
    (folder / "ray_current_cluster").write_text("10.0.0.1:6379")
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert ray_session.running_cluster()[1] == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.2:6379")
    assert ray_session.running_cluster() == ("RAY_ADDRESS", "10.0.0.2:6379")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert ray_session.running_cluster() == ("RAY_ADDRESS", "")


def test_addresses_that_others_have_written_or_linked_are_not_used(folder, monkeypatch):
    path = folder / "ray_current_cluster"
    (folder / "other").write_text("10.0.0.1:6379")
    path.symlink_to(folder / "other")
    assert ray_session.running_cluster() == ("", "")
    (folder / "other").replace(path)
    assert ray_session.running_cluster() == (str(path), "10.0.0.1:6379")
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    if not os.geteuid():  # Root's would be used.
        os.chown(path, 12345, -1)
    assert ray_session.running_cluster() == ("", "")


@pytest.mark.parametrize(
    "address, expected",
    [
        ("nonsense", "RAY_ADDRESS: 'nonsense' is not host:port"),
        ("10.0.0.1", "RAY_ADDRESS: '10.0.0.1' is not host:port"),
        ("ray://10.0.0.1:10001", "the chief can't run on a Ray client"),
    ],
)
def test_wrong_addresses_are_refused(folder, installed, monkeypatch, address, expected):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UsageError, match=expected):
        connect()


@pytest.mark.parametrize("is_named", [True, False])
def test_a_cluster_that_does_not_answer_is_refused_before_ray_waits_for_it(
    folder, installed, monkeypatch, is_named
):
    [address] = free_addresses(1)
    if is_named:
        monkeypatch.setenv("RAY_ADDRESS", address)
    else:
        (folder / "ray_current_cluster").write_text(address)
    with pytest.raises(UsageError, match=f"Ray does not answer at {address} .*refused"):
        connect()
    assert "ray" not in sys.modules
