"""Suite: one minibatch of the update."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchmarks import ours as library
from benchmarks.case import OURS, Case, Contestant
from benchmarks.child import Measure, duration

TITLE = "Update"
INTRO = """\
Milliseconds for one minibatch of 64, on average over the 320 of an update: 10 epochs over a rollout of 8 x 256 steps
of Pendulum-v1, with 64-64 tanh networks and Adam. Ours is the whole of `PPO.train()`, returns and histograms' arrays
included; Stable-Baselines3's is `PPO.train()`, whose returns were computed before; skrl's is `PPO.update()` with its
returns. The learning rate is 1e-6 here, so that learning again and again from one rollout does not diverge."""

ENV, NUM_ENVS, ROLLOUT_LENGTH, MINIBATCHES = "Pendulum-v1", 8, 256, 10 * 8 * 256 // 64
LEARNING_RATE = 1e-6


def cases(quick: bool) -> list[Case]:
    """All cases of this suite."""
    names = {OURS: "ours", "SB3": "sb3", "skrl": "skrl"}
    contestants = tuple(Contestant(name, f"{__name__}:{function}") for name, function in names.items())
    effort = {"rounds": 3, "seconds": 0.3} if quick else {"rounds": 7, "seconds": 1.5}
    return [Case("Pendulum-v1/minibatch/64", "ms", contestants, **effort)]


def ours() -> Iterator[Measure]:
    """Our PPO, on a rollout that it collected."""
    settings = {"env": ENV, "num_envs": NUM_ENVS, "rollout_length": ROLLOUT_LENGTH, "learning_rate": LEARNING_RATE}
    with library.algorithm(**settings) as (envs, ppo):
        import tensorflow as tf

        from agents.tools import simulate

        rollout = tf.function(lambda: simulate(envs, ppo, ROLLOUT_LENGTH), autograph=False)()
        yield duration(lambda: float(ppo.train(rollout).scalars["losses/value"]), MINIBATCHES, scale=1000)


def sb3() -> Iterator[Measure]:
    """Stable-Baselines3's PPO, likewise."""
    from benchmarks.sb3 import iteration, make_envs, make_ppo
    from benchmarks.torch_threads import WithBestThreads

    with contextlib.closing(make_envs("DummyVecEnv", ENV, NUM_ENVS)) as envs:
        ppo = make_ppo(envs, ROLLOUT_LENGTH, learning_rate=LEARNING_RATE)
        iteration(ppo)()
        yield WithBestThreads(ppo.train, duration(ppo.train, MINIBATCHES, scale=1000))


def skrl() -> Iterator[Measure]:
    """The PPO of skrl, likewise."""
    from benchmarks.skrl_ppo import make_trainer
    from benchmarks.torch_threads import WithBestThreads

    trainer = make_trainer(ENV, NUM_ENVS, ROLLOUT_LENGTH, learning_rate=LEARNING_RATE)
    trainer.train()
    agent = trainer.agents
    agent.enable_models_training_mode(True)

    def update() -> None:
        agent.update(timestep=0, timesteps=1)

    yield WithBestThreads(update, duration(update, MINIBATCHES, scale=1000))
