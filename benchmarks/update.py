"""Suite: one minibatch of the update."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchmarks import library
from benchmarks.case import OURS, Case, Contestant
from benchmarks.contestant import Measure, duration
from benchmarks.ppo_settings import PPOSettings

TITLE = "Update"
INTRO = """\
Milliseconds per minibatch of 64, averaged over the 320 of an update: 10 epochs over a rollout of 8 x 256 steps of
Pendulum-v1, with 64-64 tanh networks and Adam. Ours is the whole of `PPO.train()`, including advantages and the arrays
for histograms; Stable-Baselines3's is `PPO.train()`, whose advantages were computed before; skrl's is `PPO.update()`
with its advantages. The learning rate is 1e-6, so that repeated updates on the same rollout do not diverge."""

ENV, NUM_ENVS, ROLLOUT_LENGTH, MINIBATCHES = "Pendulum-v1", 8, 256, 10 * 8 * 256 // 64
SETTINGS = PPOSettings(learning_rate=1e-6)


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite."""
    names = {OURS: "ours", "SB3": "sb3", "skrl": "skrl"}
    contestants = tuple(
        Contestant(name, f"{__name__}:{function}") for name, function in names.items()
    )
    rounds, seconds = (3, 0.3) if quick else (7, 1.5)
    return [Case("Pendulum-v1/minibatch/64", "ms", contestants, rounds, seconds)]


def ours() -> Iterator[Measure]:
    """Measures our PPO on a rollout that it collected."""
    with library.algorithm(ENV, NUM_ENVS, ROLLOUT_LENGTH, SETTINGS) as (envs, ppo):
        import tensorflow as tf

        from agents import simulate

        rollout = tf.function(lambda: simulate(envs, ppo, ROLLOUT_LENGTH), autograph=False)()
        yield duration(
            lambda: float(ppo.train(rollout).scalars["losses/value"]), MINIBATCHES, scale=1000
        )


def sb3() -> Iterator[Measure]:
    """Measures Stable-Baselines3's PPO on a rollout that it collected."""
    from benchmarks.sb3 import iteration, make_envs, make_ppo
    from benchmarks.torch_threads import WithBestThreads

    with contextlib.closing(make_envs("DummyVecEnv", ENV, NUM_ENVS)) as envs:
        ppo = make_ppo(envs, ROLLOUT_LENGTH, SETTINGS)
        iteration(ppo)()
        yield WithBestThreads(ppo.train, duration(ppo.train, MINIBATCHES, scale=1000))


def skrl() -> Iterator[Measure]:
    """Measures skrl's PPO on a rollout that it collected."""
    from benchmarks.skrl_ppo import make_trainer
    from benchmarks.torch_threads import WithBestThreads

    trainer = make_trainer(ENV, NUM_ENVS, ROLLOUT_LENGTH, SETTINGS)
    trainer.train()
    agent = trainer.agents
    agent.enable_models_training_mode(True)

    def update() -> None:
        agent.update(timestep=0, timesteps=1)

    yield WithBestThreads(update, duration(update, MINIBATCHES, scale=1000))
