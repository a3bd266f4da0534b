"""PureJaxRL's PPO, with the settings of ours."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

from benchmarks.contestant import Measure, rate
from benchmarks.peers.installation import source
from benchmarks.ppo_settings import PPOSettings

ITERATIONS = 20  # Of a training, which is one call: making the networks counts for little.


def training(env: str, num_envs: int, rollout_length: int) -> Iterator[Measure]:
    """Measures whole trainings by `ppo.py`, compiled before; its networks are those of ours."""
    sys.path.insert(0, str(source("purejaxrl") / "purejaxrl"))  # Its modules import each other.
    jax, ppo = importlib.import_module("jax"), importlib.import_module("ppo")
    settings = PPOSettings()
    steps = num_envs * rollout_length
    config = {
        "ENV_NAME": env,
        "NUM_ENVS": num_envs,
        "NUM_STEPS": rollout_length,
        "TOTAL_TIMESTEPS": ITERATIONS * steps,
        "UPDATE_EPOCHS": settings.epochs,
        "NUM_MINIBATCHES": steps // settings.minibatch_size,
        "LR": settings.learning_rate,
        "ANNEAL_LR": False,
        "GAMMA": settings.discount,
        "GAE_LAMBDA": settings.gae_lambda,
        "CLIP_EPS": settings.clip_ratio,
        "VF_COEF": settings.value_coef,
        "ENT_COEF": settings.entropy_coef,
        "MAX_GRAD_NORM": settings.max_gradient_norm,
        "ACTIVATION": settings.activation,
    }
    key = jax.random.PRNGKey(0)
    train = jax.jit(ppo.make_train(config)).lower(key).compile()
    yield rate(lambda: jax.block_until_ready(train(key)), ITERATIONS * steps)
