"""Python environments of peers whose requirements exclude ours or each other's.

Each lies in a folder of `~/.cache/agents/peers`, or of `$AGENTS_PEERS`; `python -m benchmarks.peers`
makes them. This module imports the standard library only, as all that peers' processes import.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "AGENTS_PEERS"
_VERSIONS, _SOURCE = "versions.json", "source"  # In the folder of a peer.


@dataclass(frozen=True)
class Peer:
    """What a peer's environment consists of.

    Attributes:
      title: The peer's own name.
      requirements: Packages for `pip install`, with pinned versions.
      versions: Packages whose versions are recorded with the figures, besides the peer's own.
      bare_requirements: Packages that are installed without their requirements.
      repository: Address of the git repository that its programs come from; empty for a package.
      commit: Commit of the repository.
    """

    title: str
    requirements: Sequence[str]
    versions: Sequence[str]
    bare_requirements: Sequence[str] = ()
    repository: str = ""
    commit: str = ""


# PyTorch's later releases bring gigabytes of CUDA where its own index is out of reach.
_TORCH = "torch==2.13.0"

PEERS: Mapping[str, Peer] = {
    # Its script does not run with Gymnasium 1, whose wrappers take other arguments.
    "cleanrl": Peer(
        title="CleanRL",
        requirements=[
            _TORCH, "gymnasium[mujoco]==0.29.1", "mujoco==3.17.0", "numpy==1.26.4", "tyro==1.0.17",
            "tensorboard==2.21.0", "ale-py==0.10.2", "opencv-python-headless==4.11.0.86",
            "box2d==2.3.10", "pygame==2.6.1",
        ],
        versions=["torch", "gymnasium", "mujoco", "ale-py"],
        repository="https://github.com/vwxyzjn/cleanrl",
        commit="fe8d8a03c41a7ef5b523e2e354bd01c363e786bb",
    ),
    # Packages as old as its last commit: it does not run with newer ones of JAX and Gymnax.
    "purejaxrl": Peer(
        title="PureJaxRL",
        requirements=[
            "jax==0.4.31", "jaxlib==0.4.31", "flax==0.8.5", "optax==0.2.3", "chex==0.1.86",
            "distrax==0.1.5", "tensorflow-probability==0.24.0", "gymnax==0.0.8", "brax==0.10.5",
            "mujoco==3.2.3", "mujoco-mjx==3.2.3", "navix==0.7.4", "numpy==1.26.4",
        ],
        versions=["jax", "gymnax"],
        repository="https://github.com/luchris429/purejaxrl",
        commit="31756b197773a52db763fdbe6d635e4b46522a73",
    ),
    "rl_games": Peer(
        title="rl_games",
        requirements=["rl-games==1.6.5", _TORCH, "envpool==1.2.5", "gymnasium==1.4.0"],
        versions=["torch", "envpool"],
    ),
    # Compiles its trainings, so it needs a C++ compiler, too.
    "rltools": Peer(
        title="RLtools",
        requirements=["rltools==2.2.1", "mkl==2026.2.0", "mkl-include==2026.2.0"],
        versions=["mkl"],
    ),
    # Its requirements exclude Gymnasium 1, with which its vectors work.
    "pufferlib": Peer(
        title="PufferLib",
        requirements=[
            "gymnasium[classic-control,mujoco]==1.4.0", "mujoco==3.17.0", "gym==0.26.2",
            "pettingzoo==1.27.0", "psutil==7.2.2", "cloudpickle==3.1.2",
        ],
        bare_requirements=["pufferlib==2.0.2"],
        versions=["gymnasium", "mujoco"],
    ),
    "sample_factory": Peer(
        title="Sample Factory",
        requirements=[
            "sample-factory==2.1.1", _TORCH, "gymnasium[mujoco]==0.29.1", "mujoco==3.17.0",
        ],
        versions=["torch", "gymnasium", "mujoco"],
    ),
    # With Stable-Baselines3, whose interface it has.
    "sbx_rl": Peer(
        title="SBX",
        requirements=[
            "sbx-rl==0.28.0", "stable-baselines3==2.9.2", _TORCH, "jax==0.10.2",
            "gymnasium[mujoco]==1.4.0", "mujoco==3.17.0",
        ],
        versions=["stable-baselines3", "torch", "jax", "gymnasium", "mujoco"],
    ),
}  # fmt: skip


class PeerError(Exception):
    """A peer's environment is missing or can't be made; the message says what to do."""


def folder(name: str) -> Path:
    """Returns the folder of a peer's environment, which may not exist."""
    if parent := os.environ.get(VARIABLE):
        return Path(parent).absolute() / name
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "agents" / "peers" / name


def interpreter(name: str) -> Path:
    """Returns the Python of a peer's environment.

    Raises:
      PeerError: It was not installed.
    """
    # Versions are written last: an installation that was interrupted has none.
    if not (folder(name) / _VERSIONS).is_file():
        checkout = " --source=CHECKOUT" if PEERS[name].repository else ""
        raise PeerError(f"not installed; `python -m benchmarks.peers {name}{checkout}` installs it")
    return folder(name) / "bin" / "python"


def source(name: str) -> Path:
    """Returns the files of a peer's repository, in its environment."""
    return folder(name) / _SOURCE


def versions() -> dict[str, str]:
    """Returns the versions of all peers that are installed, by title."""
    paths = {peer.title: folder(name) / _VERSIONS for name, peer in PEERS.items()}
    return {title: json.loads(path.read_text()) for title, path in paths.items() if path.is_file()}


def install(name: str, checkout: Path | None = None, python: str = sys.executable) -> None:
    """Makes the environment of a peer, in place of one that may be there.

    Args:
      name: The peer.
      checkout: A clone of its repository, where it has one; it may be a bare one.
      python: The Python that the environment is made of.

    Raises:
      PeerError: The checkout is missing or lacks the commit, or a command failed.
    """
    peer = PEERS[name]
    if peer.repository and checkout is None:
        raise PeerError(
            f"{peer.title} is not a package: clone {peer.repository},"
            f" which has commit {peer.commit}, and pass its folder as --source"
        )
    _run(python, "-m", "venv", "--clear", str(folder(name)))
    if checkout is not None and peer.repository:
        _extract(checkout, peer.commit, source(name))
    pip = (str(folder(name) / "bin" / "python"), "-m", "pip")
    _run(*pip, "install", "--quiet", *peer.requirements)
    if peer.bare_requirements:
        _run(*pip, "install", "--quiet", "--no-deps", *peer.bare_requirements)
    packages = json.loads(_run(*pip, "list", "--format=json"))
    found = {each["name"].lower().replace("_", "-"): each["version"] for each in packages}
    own = peer.commit[:7] or found[name.replace("_", "-")]
    others = ", ".join(f"{package} {found[package]}" for package in peer.versions)
    (folder(name) / _VERSIONS).write_text(json.dumps(f"{own} ({others})"))


def _extract(checkout: Path, commit: str, target: Path) -> None:
    """Writes the files of a commit into a new folder."""
    target.mkdir()
    archive = target.with_suffix(".tar")
    _run("git", "-C", str(checkout), "archive", f"--output={archive.absolute()}", commit)
    shutil.unpack_archive(archive, target, filter="data")
    archive.unlink()


def _run(*command: str) -> bytes:
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise PeerError(f"{command[0]} is missing") from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        # What pip says after an error, such as that a newer pip exists, is not the reason.
        errors = [line for line in lines if line.lower().startswith(("error", "fatal"))]
        reason = (errors or lines or [f"exit code {error.returncode}"])[-1]
        raise PeerError(f"{' '.join(command)[:200]}: {reason}") from error
