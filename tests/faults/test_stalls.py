"""Steps that take longer than their deadline: late replies are never taken for later ones."""

import contextlib
import time
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.errors import EnvironmentFailure, WorkerTimeoutError
from agents.vector.process_batch import make_batch_env
from tests.faults.figures import few_and_many, record

NUM_ENVS, TIMEOUT, STALL_SECONDS, PERCENT = 4, 0.05, 0.1, 1
NONCES = spaces.Box(-1, 2**53, (), np.float64)

pytestmark = pytest.mark.usefixtures("spawner")


class EchoEnv(gymnasium.Env):
    """Observes its last action, or minus one where there is none; stalls if the action's sign asks it to.

    Rewards are the number of the step in the episode.
    """

    observation_space = NONCES
    action_space = spaces.Box(-(2.0**53), 2**53, (), np.float64)

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return np.array(-1.0), {}

    def step(self, action):
        if action < 0:
            time.sleep(STALL_SECONDS)
        self._steps += 1
        return np.abs(action), float(self._steps), False, False, {}


@few_and_many("count", 50, 10_000)
@pytest.mark.parametrize("restarts", [False, True])
def test_late_replies_are_never_taken_for_later_ones(count, restarts):
    """The actions are nonces, 1 % of which stall."""
    rng, timeouts, stale = np.random.default_rng(3), 0, 0
    limit = 10**9 if restarts else 0
    batch = make_batch_env([EchoEnv] * NUM_ENVS, NUM_ENVS, TIMEOUT, restart_limit=limit)
    with contextlib.closing(batch), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        episode_steps = np.zeros(NUM_ENVS, int)  # [B]
        observ = _reset(batch)  # [B]
        for step in range(count):
            nonces = 1.0 + NUM_ENVS * step + np.arange(NUM_ENVS)  # [B]
            stalls = rng.random(NUM_ENVS) < PERCENT / 100  # [B]
            try:
                after, reward, _, truncated, infos = batch.step(np.where(stalls, -nonces, nonces))
            except WorkerTimeoutError:
                timeouts += 1
                observ, episode_steps[:] = _reset(batch), 0
                continue
            restarted = infos.get("restarted", np.zeros(NUM_ENVS, bool))  # [B]
            episode_steps = np.where(restarted, 0, episode_steps + 1)
            wrong = after != np.where(restarted, -1, nonces)
            wrong |= reward != episode_steps
            wrong |= truncated != restarted
            if restarted.any():
                for row in np.flatnonzero(restarted):
                    wrong[row] |= infos["final_obs"][row] != observ[row]
            stale += int(wrong.sum())
            timeouts += int(restarted.any())
            observ = after
    assert stale == 0
    assert timeouts >= count * PERCENT / 100 * NUM_ENVS / 2
    name = "with restarts" if restarts else "without restarts"
    record(
        f"steps with 1 % stalls, {name}",
        steps=count,
        timeouts=timeouts,
        stale=stale,
    )


def _reset(batch):
    """Resets until no late reply is in the way; returns the observations [B]."""
    deadline = time.monotonic() + 30
    while True:
        try:
            observ, _ = batch.reset()
            break
        except EnvironmentFailure:
            assert time.monotonic() < deadline
    np.testing.assert_array_equal(observ, np.full(NUM_ENVS, -1.0))
    return observ
