"""RLtools' PPO on its own Pendulum, with the settings of its benchmark of PPO."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.contestant import Measure, rate

# RLtools compiles the environment into the training; its `environment.h` names the type.
ENVIRONMENT = """\
#include <rl_tools/rl/environments/pendulum/operations_cpu.h>
template <typename T, typename TI>
using ENVIRONMENT_FACTORY = rl_tools::rl::environments::Pendulum<
    rl_tools::rl::environments::pendulum::Specification<T, TI>>;
"""


def training(
    num_envs: int, rollout_length: int, minibatch_size: int, epochs: int
) -> Iterator[Measure]:
    """Measures iterations, which RLtools' package compiles for this processor and these settings."""
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder  # Compiled modules are kept there, under names without settings.
        from rltools import PPO

        Path(folder, "environment.h").write_text(ENVIRONMENT)
        ppo = PPO(
            {"path": folder, "action_dim": 1, "observation_dim": 3},
            enable_evaluation=False,
            force_blas=True,
            GAMMA=0.9,
            INITIAL_ACTION_STD=2.0,
            ACTION_ENTROPY_COEFFICIENT=0.0,
            N_EPOCHS=epochs,
            N_ENVIRONMENTS=num_envs,
            ON_POLICY_RUNNER_STEPS_PER_ENV=rollout_length,
            BATCH_SIZE=minibatch_size,
            EPISODE_STEP_LIMIT=200,
            STEP_LIMIT=10**9,
        )
        state = ppo.State(0)
        yield rate(state.step, num_envs * rollout_length)
