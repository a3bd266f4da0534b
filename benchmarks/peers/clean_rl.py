"""CleanRL's script for continuous actions, with the settings of ours."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.contestant import Measure
from benchmarks.peers.installation import source
from benchmarks.peers.script import Script
from benchmarks.ppo_settings import PPOSettings


def training(env: str, num_envs: int, rollout_length: int) -> Iterator[Measure]:
    """Measures iterations of `ppo_continuous_action.py`, whose networks are those of ours."""
    settings = PPOSettings()
    steps = num_envs * rollout_length
    arguments = [
        str(source("cleanrl") / "cleanrl" / "ppo_continuous_action.py"),
        f"--env-id={env}",
        f"--num-envs={num_envs}",
        f"--num-steps={rollout_length}",
        f"--num-minibatches={steps // settings.minibatch_size}",
        f"--update-epochs={settings.epochs}",
        f"--learning-rate={settings.learning_rate}",
        f"--gamma={settings.discount}",
        f"--gae-lambda={settings.gae_lambda}",
        f"--clip-coef={settings.clip_ratio}",
        f"--vf-coef={settings.value_coef}",
        f"--ent-coef={settings.entropy_coef}",
        f"--max-grad-norm={settings.max_gradient_norm}",
        "--total-timesteps=1000000000000",
        "--no-anneal-lr",
        "--no-clip-vloss",
        "--no-cuda",
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Script(arguments, "^SPS: ", steps, Path(folder))) as script,
    ):
        script.warm_up()
        yield script.measure
