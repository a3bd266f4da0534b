"""CartPole is learned although its environments crash and stall, as they are restarted."""

import contextlib
import functools
import warnings

import gymnasium
import numpy as np
import pytest

from agents.scripts.train import train
from agents.settings.config_file import load_config
from agents.storage.metrics import read_metrics
from agents.storage.run_directory import RunDirectory
from agents.vector.batch_env import make_batch_env
from tests.faults.figures import record

SCORE = 450
EVAL_INTERVAL = 4000
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
        for _ in range(300):
            observ, reward, terminated, truncated, infos = batch.step(rng.integers(2, size=4))
            restarted = infos["restarted"]  # [B]
            assert (np.abs(observ[:, 2]) < 0.21).all() and not (terminated & truncated).any()
            np.testing.assert_array_equal(truncated, restarted)
            np.testing.assert_array_equal(reward, 1.0 - restarted)
            num_cut += int(restarted.sum())
            lengths = np.where(terminated | restarted, 0, lengths + 1)
            np.testing.assert_array_less(np.abs(observ[lengths == 0]), 0.0501)  # Of a reset.
        assert num_cut >= batch.restarts.count >= 3


def learn(path, whole, **faults):
    """Trains; returns the steps until the score was reached, the last score, and the restarts."""
    config = load_config(
        "cartpole",
        env="tests.faults.soaked_cartpole:SoakedCartPole-v1",
        env_kwargs=faults,
        env_restarts={"limit": 10**6},
        step_timeout=STEP_TIMEOUT if faults else 60,
        eval_interval=EVAL_INTERVAL,
        eval_episodes=10,
        histogram_interval=0,
        seed=1,
    )
    run = RunDirectory(path / "20260101T000000-cartpole")
    reached, score = None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.closing(train(config, run)) as scores:
            for index, score in enumerate(scores):
                if score >= SCORE and reached is None:
                    reached = EVAL_INTERVAL * (index + 1)
                    if not whole:
                        break
    restarts = [row.get("perf/env_restarts", 0) for row in read_metrics(run.metrics_file)]
    return reached, score, max(restarts)


@pytest.mark.slow
def test_cartpole_is_learned_although_it_crashes_and_stalls(tmp_path):
    steps_without, _, _ = learn(tmp_path / "without", whole=False)
    steps, score, restarts = learn(tmp_path / "with", whole=True, **FAULTS)
    record(
        "soak: CartPole with crashes and stalls",
        last_score=score,
        restarts=int(restarts),
        steps_to_450=steps,
        steps_to_450_without_faults=steps_without,
    )
    assert score >= SCORE and restarts >= 20
    # They are known to an evaluation interval each.
    assert steps <= 1.1 * steps_without + EVAL_INTERVAL
