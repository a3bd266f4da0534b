"""Checkpoints that are damaged at random: intact ones are loaded, or none."""

import collections
import random
import shutil
import warnings

import pytest

from agents.errors import UsageError
from agents.runs.run_directory import RunDirectory
from tests.faults.damages import DAMAGES, flip_bits
from tests.faults.figures import record
from tests.faults.plain_runs import INTERVAL, make_variables, resume, save_steps
from tests.fingerprint import fingerprint

STEPS = [INTERVAL * number for number in range(1, 8)]
KEPT = STEPS[-5:]


def damage_newest(run, draw):
    """Damages the newest checkpoint; returns how."""
    newest, older = (run.checkpoints / f"step-{step}.npz" for step in (STEPS[-1], STEPS[-2]))
    kind = draw.choice(["swap", "delete", "older", "intact", *DAMAGES, *DAMAGES])
    if kind == "swap":
        newest.rename(run.path / "kept")
        older.rename(newest)
        (run.path / "kept").rename(older)
    elif kind == "older":
        shutil.copyfile(older, newest)
    elif kind == "delete":
        newest.unlink()
    elif kind != "intact":
        newest.write_bytes(kind(newest.read_bytes(), draw))
    return kind if isinstance(kind, str) else kind.__name__


def damage_others(run, draw):
    """Damages or removes most of the older checkpoints, or all."""
    share = draw.choice([0.7, 1])
    for path in sorted(run.checkpoints.rglob("step-*.npz")):
        if f"step-{STEPS[-1]}" not in path.name and draw.random() < share:
            if draw.random() < 0.5:
                path.unlink()
            else:
                path.write_bytes(flip_bits(path.read_bytes(), draw))


def outcome(run, states):
    """Resumes; returns the step of the state that was loaded, or "refused"."""
    try:
        variables = resume(run)
    except UsageError as error:
        assert len(str(error).splitlines()) <= 3
        return "refused"
    return "from scratch" if variables is None else states.get(fingerprint(variables), "wrong")


def shown(run):
    """The step that `visualize` would show, or "refused"."""
    try:
        return int(run.checkpoint("last").name.removeprefix("step-"))
    except UsageError:
        return "refused"


def run_cases(count, folder):
    """Damages `count` copies of a run; returns how often which outcome was seen."""
    intact = RunDirectory(folder / "20260131T120000-default")
    save_steps(intact, STEPS)
    states = {fingerprint(make_variables(step)): step for step in STEPS}
    outcomes, disagreements, kinds = collections.Counter(), [], set()
    for case in range(count):
        draw = random.Random(case)
        run = RunDirectory(folder / str(case) / intact.path.name)
        shutil.copytree(intact.path, run.path)
        kinds.add(damage_newest(run, draw))
        if case % 3 == 2:
            damage_others(run, draw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = shown(run)
            loaded = outcome(run, states)
        outcomes[loaded] += 1
        if before != loaded:
            disagreements.append((case, before, loaded))
        shutil.rmtree(run.path.parent)
    assert outcomes["wrong"] == outcomes["from scratch"] == 0, outcomes
    assert not disagreements
    refused = outcomes.pop("refused", 0)
    newest = outcomes.pop(STEPS[-1], 0)
    record(
        "damaged checkpoints",
        cases=count,
        kinds=len(kinds),
        newest_still_right=newest,
        fell_back=sum(outcomes.values()),
        refused=refused,
        wrong_values=0,
        restarts_from_scratch=0,
        other_choice_of_visualize=0,
    )
    return outcomes, refused


def test_damaged_checkpoints_fall_back_or_refuse(tmp_path):
    outcomes, refused = run_cases(40, tmp_path)
    assert sum(outcomes.values()) > 15 and refused


@pytest.mark.slow
def test_600_damaged_checkpoints_fall_back_or_refuse(tmp_path):
    run_cases(600, tmp_path)
