"""CartPole is learned although its environments crash and stall, as they are restarted."""

import contextlib
import warnings

import pytest

from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from agents.settings.config_file import load_config
from tests.faults.figures import record

SCORE = 450
ITERATION = 2000  # Of the preset, in steps.
SEEDS = (1, 2, 3)
STEP_TIMEOUT = 1.0
FAULTS = {"crash": 1e-4, "reset_crash": 1e-3, "stall": 5e-4, "stall_seconds": 60.0}


def learn(path, until=float("inf"), **settings):
    """Trains until a score is reached; returns the steps until then, the last score, and the restarts."""
    config = load_config(
        "cartpole",
        env="tests.faults.soaked_cartpole:SoakedCartPole-v1",
        histogram_interval=0,
        **settings,
    )
    run = RunDirectory(path / "20260101T000000-cartpole")
    steps, score = 0, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.closing(train(config, run)) as scores:
            for score in scores:
                steps += config.eval_interval
                if score >= until:
                    break
    restarts = [row.get("perf/env_restarts", 0) for row in read_metrics(run.metrics_file)]
    return steps, score, int(max(restarts, default=0))


@pytest.mark.slow  # tests/vector/test_restarts.py has short ones.
def test_cartpole_is_learned_although_it_crashes_and_stalls(tmp_path):
    faulty = {"env_kwargs": FAULTS, "env_restarts": {"limit": 10**6}, "step_timeout": STEP_TIMEOUT}
    _, score, restarts = learn(tmp_path / "whole", **faulty)
    steps = {"with": 0, "without": 0}
    for kind, settings in (("with", faulty), ("without", {})):
        for seed in SEEDS:
            path = tmp_path / kind / str(seed)
            settings = {**settings, "seed": seed, "eval_interval": ITERATION, "eval_episodes": 10}
            steps[kind] += learn(path, until=SCORE, **settings)[0]
    record(
        "soak: CartPole with crashes and stalls",
        score_after_100000_steps=score,
        restarts=restarts,
        steps_to_450=steps["with"] // len(SEEDS),
        steps_to_450_without_faults=steps["without"] // len(SEEDS),
        seeds=len(SEEDS),
    )
    assert score >= SCORE and restarts >= 20
    # The steps of a run are known to an iteration.
    assert steps["with"] <= 1.1 * steps["without"] + ITERATION
