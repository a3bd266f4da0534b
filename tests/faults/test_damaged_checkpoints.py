"""Checkpoints that are damaged at random: intact ones are loaded, or none."""

import collections
import random
import shutil
import warnings

from agents.errors import UsageError
from agents.runs.run_directory import RunDirectory
from tests.faults.figures import few_and_many, record
from tests.faults.plain_runs import INTERVAL, make_variables, resume, save_steps
from tests.fingerprint import fingerprint

STEPS = [INTERVAL * number for number in range(1, 8)]

# Damage to a file's bytes, the same for the same generator.


def cut(data, draw):
    return data[: draw.randrange(len(data))]


def flip_bits(data, draw):
    damaged = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 8])):
        damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def zero_range(data, draw):
    start = draw.randrange(len(data))
    length = min(draw.choice([1, 16, 512, 4096]), len(data) - start)
    return data[:start] + bytes(length) + data[start + length :]


def random_range(data, draw):
    start = draw.randrange(len(data))
    length = min(draw.choice([4, 64, 512]), len(data) - start)
    return data[:start] + draw.randbytes(length) + data[start + length :]


def repeat_block(data, draw):
    start = draw.randrange(len(data))
    return data[:start] + data[max(0, start - 512) : start] + data[start:]


def leave_out_block(data, draw):
    start = draw.randrange(len(data))
    return data[:start] + data[start + draw.choice([1, 8, 512]) :]


def append(data, draw):
    return data + draw.choice([b"\0", bytes(512), data, draw.randbytes(100)])


def empty(data, draw):
    return b""


def other_bytes(data, draw):
    return draw.randbytes(draw.choice([1, 22, 1000, len(data)]))


DAMAGES = [
    cut, flip_bits, zero_range, random_range, repeat_block, leave_out_block, append, empty, other_bytes,
]  # fmt: skip


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


@few_and_many("count", 40, 600)
def test_damaged_checkpoints_fall_back_or_refuse(count, tmp_path):
    intact = RunDirectory(tmp_path / "20260131T120000-default")
    save_steps(intact, STEPS)
    states = {fingerprint(make_variables(step)): step for step in STEPS}
    outcomes, kinds = collections.Counter(), set()
    for case in range(count):
        draw = random.Random(case)
        run = RunDirectory(tmp_path / str(case) / intact.path.name)
        shutil.copytree(intact.path, run.path)
        kinds.add(damage_newest(run, draw))
        if case % 3 == 2:
            damage_others(run, draw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = shown(run)
            loaded = outcome(run, states)
        assert loaded == before, case
        outcomes[loaded] += 1
        shutil.rmtree(run.path.parent)
    assert outcomes["wrong"] == outcomes["from scratch"] == 0, outcomes
    refused = outcomes.pop("refused", 0)
    newest = outcomes.pop(STEPS[-1], 0)
    record(
        "damaged checkpoints",
        cases=count,
        kinds=len(kinds),
        newest_still_right=newest,
        fell_back=outcomes.total(),
        refused=refused,
        wrong_values=0,
        restarts_from_scratch=0,
        other_choice_of_visualize=0,
    )
    assert outcomes.total() > 15 and refused
