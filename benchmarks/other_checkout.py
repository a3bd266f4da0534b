"""Another commit of this repository, and whether its trainings end in the same numbers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from benchmarks import processes
from benchmarks.runner import ROOT

# Arrays by file and name, of all numbered checkpoints of a run.
Numbers: TypeAlias = Mapping[str, np.ndarray]

# Settings that between them run all of an update, and both ways of collecting.
TRAININGS: Mapping[str, Sequence[str]] = {
    "processes": ["--config=pendulum", "--steps=8000"],
    "TensorFlow environments": ["--config=pendulum", "--env-backend=tf", "--steps=16000"],
    "discrete actions, episodes cut at checkpoints": [
        "--config=cartpole", "--steps=8192", "--checkpoint-interval=4096",
    ],
    "recurrent": [
        "--config=pendulum", "--env-backend=tf", "--steps=8000", "--recurrent=gru",
        "--normalize-value=true", "--critic-learning-rate=0.001",
    ],
    "KL penalty": [
        "--config=pendulum", "--env-backend=tf", "--steps=8000", "--objective=clip_kl",
        "--kl-stop=0.02", "--learning-rate-schedule=kl", "--normalize-advantages=false",
    ],
    "SAC": [
        "--config=sac_pendulum", "--env-backend=tf", "--steps=2000", "--checkpoint-interval=1000",
    ],
}  # fmt: skip


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Writes the files of a commit into a temporary folder, whose name is the commit's short hash.

    Raises:
      SystemExit: There is no such commit, or git is missing.
    """
    name = _git("rev-parse", "--short", "--verify", f"{commit}^{{commit}}").decode().strip()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, name)
        tree.mkdir()
        subprocess.run(["tar", "-x", "-C", str(tree)], input=_git("archive", name), check=True)
        yield tree


def end_in_equal_numbers(
    tree: Path,
    other: Path,
    log: Callable[[str], None],
    trainings: Mapping[str, Sequence[str]] = TRAININGS,
) -> bool:
    """Trains in two checkouts, with equal seeds; returns whether all checkpoints are equal.

    Args:
      tree: One checkout.
      other: The other one.
      log: Receives a line for each training.
      trainings: Options of the training command, by a name for each training.
    """
    equal = True
    for name, options in trainings.items():
        try:
            found = differences(_train(tree, options), _train(other, options))
        except RuntimeError as error:
            found = [str(error)]
        log(f"{name}: {'; '.join(found) or 'equal checkpoints'}")
        equal = equal and not found
    return equal


def differences(one: Numbers, other: Numbers) -> list[str]:
    """Describes arrays that are in one of two runs only, or differ in a bit, a type or a shape."""
    found = []
    for where, names in (("here", one.keys() - other.keys()), ("there", other.keys() - one.keys())):
        if names:
            found.append(f"only {where}: {_first(names)}")
    differing = {name for name in one.keys() & other.keys() if not _equal(one[name], other[name])}
    if differing:
        found.append(f"{len(differing)} of {len(one)} arrays differ: {_first(differing)}")
    return found


def _train(tree: Path, options: Sequence[str]) -> Numbers:
    with tempfile.TemporaryDirectory() as logdir:
        arguments = [f"--logdir={logdir}", "--eval-episodes=2", *options]
        processes.run(["-m", "agents.scripts.train", *arguments], folder=tree)
        numbers = {}
        for path in sorted(Path(logdir).glob("*/checkpoints/step-*.npz")):
            with np.load(path) as arrays:
                names = set(arrays.files) - {"@run.json"}  # Text: settings and spaces.
                numbers.update({f"{path.stem}/{name}": arrays[name] for name in names})
        return numbers


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    same_form = one.dtype == other.dtype and one.shape == other.shape
    return same_form and one.tobytes() == other.tobytes()


def _first(names: set[str]) -> str:
    shown = sorted(names)[:3]
    return ", ".join([*shown, *(["..."] if len(names) > len(shown) else [])])


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, check=True
        ).stdout
    except FileNotFoundError:
        sys.exit("error: --against needs git")
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip()
        sys.exit(f"error: --against={arguments[-1].removesuffix('^{commit}')}: {reason}")
