"""CleanRL's scripts, with the settings of ours."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.case import Settings
from benchmarks.contestant import Measure
from benchmarks.peers.installation import source
from benchmarks.peers.script import Script
from benchmarks.ppo_settings import PPOSettings

# Runs a script as `python SCRIPT` does, where it also finds the package of the repository; games are
# registered by their import, which came with Gymnasium 0.29.
_RUN = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
import ale_py
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def program(script: str) -> list[str]:
    """Returns the arguments of Python that run a script."""
    root = source("cleanrl")
    return ["-c", _RUN, str(root), str(root / "cleanrl" / script)]


def training(env: str, num_envs: int, rollout_length: int) -> Iterator[Measure]:
    """Measures iterations of `ppo_continuous_action.py`, whose networks are those of ours."""
    settings = PPOSettings()
    steps = num_envs * rollout_length
    options: Settings = {
        "env-id": env,
        "num-envs": num_envs,
        "num-steps": rollout_length,
        "num-minibatches": steps // settings.minibatch_size,
        "update-epochs": settings.epochs,
        "learning-rate": settings.learning_rate,
        "gamma": settings.discount,
        "gae-lambda": settings.gae_lambda,
        "clip-coef": settings.clip_ratio,
        "vf-coef": settings.value_coef,
        "ent-coef": settings.entropy_coef,
        "max-grad-norm": settings.max_gradient_norm,
    }
    flags = ["--no-clip-vloss", "--no-anneal-lr"]
    yield from _measure("ppo_continuous_action.py", options, flags, steps)


def images(game: str, num_envs: int, rollout_length: int) -> Iterator[Measure]:
    """Measures iterations of `ppo_atari.py`, whose defaults are the settings of our presets."""
    options: Settings = {
        "env-id": f"{game}NoFrameskip-v4",
        "num-envs": num_envs,
        "num-steps": rollout_length,
    }
    yield from _measure("ppo_atari.py", options, ["--no-anneal-lr"], num_envs * rollout_length)


def sac(env: str, learning_starts: int) -> Iterator[Measure]:
    """Measures a hundred steps of `sac_continuous_action.py`, which prints a line for them."""
    options: Settings = {"env-id": env, "learning-starts": learning_starts}
    yield from _measure("sac_continuous_action.py", options, [], 100)


def _measure(script: str, options: Settings, flags: list[str], steps: int) -> Iterator[Measure]:
    arguments = [
        *program(script),
        *(f"--{name}={value}" for name, value in options.items()),
        *flags,
        *("--total-timesteps=1000000000000", "--no-cuda"),
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Script(arguments, "^SPS: ", steps, Path(folder))) as process,
    ):
        process.warm_up()
        yield process.measure
