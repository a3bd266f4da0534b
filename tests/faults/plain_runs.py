"""Runs whose variables are NumPy arrays: the files of a training without TensorFlow."""

import contextlib

import numpy as np

from agents.runs.checkpoint import Checkpoints
from agents.runs.metrics import Metrics
from agents.settings.config_file import load_config

INTERVAL = 10


class Variable:
    """What `Checkpoints` asks of a variable of TensorFlow."""

    def __init__(self, value):
        self._value = value

    def numpy(self):
        return self._value

    def __array__(self, dtype=None, copy=None):
        return self._value

    def assign(self, value):
        self._value = np.array(value)


def make_variables(step, size=300):
    """All variables of a run at a step; those of no two steps are equal."""
    draw = np.random.default_rng(step)
    return {
        "network/kernel": Variable(draw.normal(size=(3, size)).astype(np.float32)),
        "network/bias": Variable(draw.normal(size=7)),
        "optimizer/steps": Variable(np.array(step, np.int64)),
        "run/best": Variable(np.array(-step / 7)),
        "run/steps": Variable(np.array(step, np.int64)),
    }


def save_steps(run, steps, size=300):
    """Writes what a training would: settings, metrics and checkpoints, also the best one."""
    run.prepare(load_config("default"))
    with contextlib.closing(Metrics(run, 0)) as metrics:
        for step in steps:
            metrics.scalars(step, {"episode/return": step / 3, "eval/return_mean": step / 2})
            checkpoints = Checkpoints(run.checkpoints, make_variables(step, size))
            assert checkpoints.save(step)
            if step == steps[1]:
                assert checkpoints.save(step, best=True)


def resume(run, size=300):
    """Loads a run's variables and opens its metrics, as the training loop does.

    Returns:
      Its variables; None if it would start from scratch.
    """
    variables = make_variables(0, size)
    with run.locked(run.load_config()):
        if not run.is_started(INTERVAL):
            return None
        Checkpoints(run.checkpoints, variables).load(required=True)
        Metrics(run, int(variables["run/steps"].numpy())).close()
    return variables
