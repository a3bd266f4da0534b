"""Short training runs, and what they left behind."""

import shutil
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from agents.settings.config_file import load_config
from tests.fingerprint import fingerprint

SMALL = {
    "num_envs": 4, "rollout_length": 50, "minibatch_size": 50, "epochs": 2, "layers": (8,), "steps": 2000,
    "checkpoint_interval": 600, "log_interval": 400, "histogram_interval": 800, "eval_interval": 1000,
    "eval_episodes": 2, "env_backend": "inline",
}  # fmt: skip
# A categorical distribution, other episodes, and a constant learning rate.
CARTPOLE = {
    **SMALL,
    "env": "CartPole-v1",
    "steps": 1200,
    "eval_interval": 400,
    "learning_rate_schedule": "constant",
}


def small(preset="pendulum", **settings):
    return load_config(preset, **{**(CARTPOLE if preset == "cartpole" else SMALL), **settings})


def finish(config, run):
    return list(train(config, run))


def hashes(run):
    """Fingerprints of all variables, one a checkpoint."""
    return {
        path.relative_to(run.checkpoints).as_posix(): fingerprint(arrays_of(path))
        for path in [*run.checkpoints.glob("step-*.npz"), *run.checkpoints.glob("best/step-*.npz")]
    }


def arrays_of(checkpoint):
    """All variables of a checkpoint, without its record of the settings."""
    with np.load(checkpoint) as file:
        return {name: file[name] for name in file.files if not name.startswith("@run")}


def depends_on_clock(tag):
    return tag == "wall_time" or tag.startswith(("perf/", "time/"))


def rows(run):
    """What was logged, except for what depends on the clock."""
    return [
        {tag: value for tag, value in row.items() if not depends_on_clock(tag)}
        for row in read_metrics(run.metrics_file)
    ]


def events(folder):
    """Steps by tag, except for what depends on the clock or is written by every process."""
    accumulator = EventAccumulator(str(folder), {"tensors": 0})
    accumulator.Reload()
    tags = [
        tag
        for tag in accumulator.Tags()["tensors"]
        if tag not in ("configuration", "command")
        and (tag.startswith("perf/") or not depends_on_clock(tag))
    ]
    return {tag: [event.step for event in accumulator.Tensors(tag)] for tag in tags}


def assert_equal_runs(one, other):
    assert hashes(one) == hashes(other)
    assert rows(one) == rows(other)
    assert events(one.train_events) == events(other.train_events)
    assert events(one.eval_events) == events(other.eval_events)


def rewound(run, path, step):
    """A copy of a run without the checkpoints after `step`, as if it was killed before them."""
    shutil.copytree(run.path, path)
    copy = RunDirectory(path)
    for file in copy.checkpoints.glob("**/step-*.npz"):
        if int(file.stem.removeprefix("step-")) > step:
            file.unlink()
    best, last = copy.checkpoints / "best", copy.checkpoints / f"step-{step}.npz"
    knows_best = arrays_of(last)["run%2Fbest"] > np.finfo(np.float64).min
    if knows_best and not list(best.iterdir()):  # The one that a later one has replaced.
        shutil.copy(last, best)
    return copy


def children():
    """Child processes that are alive."""
    alive = []
    for task in Path("/proc/self/task").iterdir():
        alive += (task / "children").read_text().split()
    return alive
