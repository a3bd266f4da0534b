"""CartPole is learned although its environments crash and stall, as they are restarted."""

import contextlib
import functools
import warnings

import gymnasium
import numpy as np
import pytest

from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import train
from agents.settings.config_file import load_config
from agents.vector.process_batch import make_batch_env
from tests.faults.figures import record

SCORE = 450
ITERATION = 2000  # Of the preset, in steps.
SEEDS = (1, 2, 3)
STEP_TIMEOUT = 1.0
FAULTS = {"crash": 1e-4, "reset_crash": 1e-3, "stall": 5e-4, "stall_seconds": 60.0}

pytestmark = pytest.mark.usefixtures("spawner")


def test_cartpole_is_stepped_although_it_crashes():
    make = functools.partial(
        gymnasium.make,
        "tests.faults.soaked_cartpole:SoakedCartPole-v1",
        crash=0.005,
        reset_crash=0.02,
        disable_env_checker=True,
    )
    batch = make_batch_env([make] * 4, 2, timeout=30, restart_limit=10**6)
    rng, num_cut, lengths = np.random.default_rng(0), 0, np.zeros(4, int)  # [B]
    with contextlib.closing(batch), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch.reset(seed=0)
        num_steps = 0
        while num_steps < 300 or batch.restarts.count < 3:  # Crashes are random, seven on average.
            num_steps += 1
            assert num_steps < 10_000
            observ, reward, terminated, truncated, infos = batch.step(rng.integers(2, size=4))
            restarted = infos["restarted"]  # [B]
            assert (np.abs(observ[:, 2]) < 0.21).all() and not (terminated & truncated).any()
            np.testing.assert_array_equal(truncated, restarted)
            np.testing.assert_array_equal(reward, 1.0 - restarted)
            num_cut += int(restarted.sum())
            lengths = np.where(terminated | restarted, 0, lengths + 1)
            np.testing.assert_array_less(np.abs(observ[lengths == 0]), 0.0501)  # Of a reset.
        assert num_cut >= batch.restarts.count


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


@pytest.mark.slow
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
