"""Runs tests on mutants of the library, and lists those that all tests pass.

    python scripts/mutants.py agents/ppo agents/distributions --sample=40
    python scripts/mutants.py agents/training/evaluation.py --survivors=survivors.jsonl
    python scripts/mutants.py --own  # An hour or two; without it, a night.

Each mutant is tested in a copy of the checkout: first by the tests of its file, such as
tests/ppo/test_loss.py for agents/ppo/loss.py, then, unless --own is given, by those of its room. One
that takes three times as long as the unchanged code, and half a minute more, counts as noticed.
"""

import argparse
import functools
import json
import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path

from scripts.mutation.forked_tests import import_libraries, run_tests
from scripts.mutation.mutants import Mutant, find_mutants

ROOT = Path(__file__).parents[2]
ROOMS = ("agents/ppo", "agents/learning", "agents/distributions", "agents/policies")
FILES = (
    "agents/graph/simulation.py",
    "agents/training/evaluation.py",
    "agents/training/learner.py",
)
COPIED = (
    "agents", "configs", "tests", "benchmarks", "results", "scripts", "examples", "docs", "notebooks",
)  # fmt: skip

_copy: Path  # The copy of the checkout that belongs to this process, one of several.


def main() -> int:
    """Runs the command; returns 1 if a mutant survives."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "paths", nargs="*", default=[*ROOMS, *FILES], help=f"by default {', '.join(ROOMS)}, ..."
    )
    parser.add_argument("--sample", type=int, default=0, help="mutants of all paths; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--at-once", type=int, default=os.cpu_count(), help="mutants at a time (default: all cores)"
    )
    parser.add_argument(
        "--own", action="store_true", help="runs a file's own tests alone, where it has any"
    )
    parser.add_argument("--survivors", type=Path, help="file to append survivors to, as JSON lines")
    options = parser.parse_args()
    found = [
        (path, mutant)
        for place in options.paths
        for path in source_files(ROOT / place)
        for mutant in find_mutants(path.read_text())
    ]
    chosen = found
    if options.sample and options.sample < len(found):
        chosen = random.Random(options.seed).sample(found, options.sample)
    print(f"{len(chosen)} of {len(found)} mutants", flush=True)
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for path, mutant in _survivors(chosen, Path(folder), options.at_once, options.own):
            survivors += 1
            name = str(path.relative_to(ROOT))
            print(f"survives: {name}:{mutant}", flush=True)
            if options.survivors:
                with options.survivors.open("a") as file:
                    file.write(json.dumps({"file": name, "mutant": str(mutant)}) + "\n")
    print(f"{survivors} of {len(chosen)} survive")
    return int(bool(survivors))


def source_files(place: Path) -> list[Path]:
    """Returns a file, or the source files of a folder."""
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def copy_checkout(folder: Path) -> Path:
    """Copies what tests need of this checkout, as it is; returns the copy."""
    copy = folder / "checkout"
    copy.mkdir(parents=True)
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    for path in ROOT.glob("*"):
        if path.is_file():
            shutil.copy2(path, copy)
    return copy


def targets(path: Path, own_alone: bool = False) -> list[str]:
    """Returns the tests of a source file, relative to the checkout: of itself, then of its room."""
    folder = Path("tests") / path.relative_to(ROOT / "agents").parent
    own = folder / f"test_{path.name}"
    if not (ROOT / own).is_file():
        return [str(folder)]
    return [str(own)] if own_alone else [str(own), str(folder)]


def _survivors(
    chosen: list[tuple[Path, Mutant]], folder: Path, at_once: int, own_alone: bool
) -> Iterator[tuple[Path, Mutant]]:
    """Tests mutants in processes with a copy of the checkout each; yields those that survive."""
    import_libraries()
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(at_once, fork, _begin, (folder,)) as pool:
        survive = pool.map(functools.partial(_survives, own_alone), *zip(*chosen, strict=True))
        yield from (pair for pair, survives in zip(chosen, survive, strict=True) if survives)


def _begin(folder: Path) -> None:
    """Gives this process a copy of the checkout."""
    global _copy
    _copy = copy_checkout(folder / str(os.getpid()))


def _survives(own_alone: bool, path: Path, mutant: Mutant) -> bool:
    """Returns whether all tests of a file pass with a mutant of it."""
    tests = targets(path, own_alone)
    limits = [30 + 3 * _seconds(test) for test in tests]
    changed = _copy / path.relative_to(ROOT)
    _write(changed, mutant.source)
    try:
        return all(
            run_tests(_copy, [test], limit) for test, limit in zip(tests, limits, strict=True)
        )
    finally:
        _write(changed, path.read_text())


@functools.cache
def _seconds(test: str) -> float:
    """Returns how long tests take without any change."""
    start = time.monotonic()
    if not run_tests(_copy, [test]):
        raise SystemExit(
            f"error: {test} fails in a copy of the checkout, without any change\n"
            f"if scripts/test {test} passes, it reads a folder that is not in COPIED in {__file__}"
        )
    return time.monotonic() - start


def _write(path: Path, source: str) -> None:
    """Writes a source file. Its compiled form may be of the same second, and is removed."""
    path.write_text(source)
    Path(cache_from_source(str(path))).unlink(missing_ok=True)
