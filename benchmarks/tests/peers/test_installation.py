import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers import installation
from benchmarks.peers.installation import Peer, PeerError, install, source, versions
from benchmarks.runner import ROOT

# Those that peers' processes import before the peer; the one of PufferLib needs Gymnasium at once.
WITHOUT_PACKAGES = (
    "clean_rl", "pure_jax_rl", "rl_games_clock", "rl_games_ppo", "rl_tools", "sample_factory_ppo",
)  # fmt: skip


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Commands that were run, without an effect but for those of git."""
    found, run = [], installation._run

    def fake(*command):
        found.append(command)
        if command[0] == "git":
            return run(*command)
        if command[1:3] == ("-m", "venv"):
            Path(command[-1]).mkdir(parents=True)
        packages = {"A_Peer": "1.5", "numpy": "2.0"}
        return json.dumps([{"name": name, "version": each} for name, each in packages.items()])

    monkeypatch.setattr(installation, "_run", fake)
    monkeypatch.setenv(installation.VARIABLE, str(tmp_path / "peers"))
    return found


@pytest.fixture
def checkout(tmp_path):
    """A repository with a file that the last commit removed, and the commit before that."""
    folder = tmp_path / "checkout"
    folder.mkdir()

    def git(*arguments):
        settings = ("-c", "user.name=Name", "-c", "user.email=name@example.com")
        command = ["git", "-C", str(folder), *settings, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    (folder / "program.py").write_text("print(1)")
    git("add", "program.py")
    git("commit", "-m", "One")
    commit = git("rev-parse", "HEAD")
    git("rm", "program.py")
    git("commit", "-m", "Two")
    return folder, commit


def add_peer(monkeypatch, **fields):
    peer = Peer(**{"title": "A Peer", "requirements": ["a==1"], "versions": ["numpy"], **fields})
    monkeypatch.setattr(installation, "PEERS", {"a_peer": peer})


def test_programs_come_from_a_commit_of_a_checkout(commands, checkout, monkeypatch):
    folder, commit = checkout
    add_peer(monkeypatch, repository="https://example.com/peer", commit=commit)
    with pytest.raises(PeerError, match="clone https://example.com/peer, which has commit"):
        install("a_peer")
    assert not commands
    install("a_peer", folder)
    assert [path.name for path in source("a_peer").iterdir()] == ["program.py"]
    assert versions() == {"A Peer": f"{commit[:7]} (numpy 2.0)"}


def test_every_peer_is_pinned():
    for peer in installation.PEERS.values():
        for requirement in (*peer.requirements, *peer.bare_requirements):
            assert "==" in requirement
        assert bool(peer.repository) == (len(peer.commit) == 40)


def test_peers_without_our_packages_can_start(tmp_path):
    modules = ["contestant", *(f"peers.{name}" for name in WITHOUT_PACKAGES)]
    code = "; ".join(f"import benchmarks.{module}" for module in modules)
    subprocess.run([sys.executable, "-S", "-c", code], check=True, cwd=ROOT)
