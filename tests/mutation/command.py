"""Runs tests on mutants of the library, and lists those that all tests pass.

    python scripts/mutants.py agents/ppo agents/distributions --sample=40
    python scripts/mutants.py agents/training/evaluation.py --survivors=survivors.jsonl

Each mutant is tested in a copy of the checkout: first by the tests of its file, such as
tests/ppo/test_loss.py for agents/ppo/loss.py, then by those of its room. One that takes three times
as long as the unchanged code counts as noticed.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutation.mutants import Mutant, find_mutants

ROOT = Path(__file__).parents[2]
ROOMS = ("agents/ppo", "agents/learning", "agents/distributions", "agents/policies")
FILES = (
    "agents/graph/simulation.py",
    "agents/training/evaluation.py",
    "agents/training/learner.py",
)
COPIED = ("agents", "configs", "tests", "benchmarks", "results", "scripts", "examples")


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
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        survivors = _run_all(chosen, copy_checkout(Path(folder)), options.survivors)
    print(f"{len(survivors)} of {len(chosen)} survive")
    return int(bool(survivors))


def source_files(place: Path) -> list[Path]:
    """Returns a file, or the source files of a folder."""
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def copy_checkout(folder: Path) -> Path:
    """Copies what tests need of this checkout, as it is; returns the copy."""
    copy = folder / "checkout"
    copy.mkdir()
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    for path in ROOT.glob("*"):
        if path.is_file():
            shutil.copy2(path, copy)
    return copy


def targets(path: Path) -> list[str]:
    """Returns the tests of a source file, relative to the checkout: of itself, then of its room."""
    folder = Path("tests") / path.relative_to(ROOT / "agents").parent
    own = folder / f"test_{path.name}"
    return [*([str(own)] if (ROOT / own).is_file() else []), str(folder)]


def run_tests(copy: Path, tests: list[str], timeout: float | None = None) -> bool:
    """Returns whether the tests pass in a copy of the checkout."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        result = subprocess.run(
            command, cwd=copy, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


def _run_all(
    chosen: list[tuple[Path, Mutant]], copy: Path, log: Path | None
) -> list[tuple[Path, Mutant]]:
    seconds: dict[str, float] = {}
    survivors = []
    for path, mutant in chosen:
        tests = targets(path)
        for test in tests:
            if test not in seconds:
                start = time.monotonic()
                if not run_tests(copy, [test]):
                    raise SystemExit(f"error: {test} fails without any change")
                seconds[test] = time.monotonic() - start
        name = path.relative_to(ROOT)
        (copy / name).write_text(mutant.source)
        survives = all(run_tests(copy, [test], 30 + 3 * seconds[test]) for test in tests)
        (copy / name).write_text(path.read_text())
        if survives:
            survivors.append((path, mutant))
            print(f"survives: {name}:{mutant}", flush=True)
            if log:
                with log.open("a") as file:
                    file.write(json.dumps({"file": str(name), "mutant": str(mutant)}) + "\n")
    return survivors
