"""Suite: whole iterations with images."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agents.types import PlainData
from benchmarks.case import OURS, Case, Contestant
from benchmarks.contestant import Measure, rate

if TYPE_CHECKING:
    from agents.settings.config import Config

TITLE = "Images"
INTRO = """\
Environment steps per second from end to end on Atari games, collecting and learning, without evaluation, logging and
checkpoints. A step is four frames. All contestants do the same work, that of CleanRL's `ppo_atari.py`: PPO with 8
environments x 128 steps, 4 epochs of 4 minibatches of 256, one network for policy and value function (Nature CNN, 512
features) of four stacked frames of 84 x 84, Adam with 2.5e-4, discount 0.99, lambda 0.95, clipping of ratios and values
at 0.1, gradient norm 0.5, value coefficient 0.5, entropy coefficient 0.01, normalized advantages, episodes that end
with a life, and rewards clipped to their signs. `ours` is `Learner.iterate()` with the presets `pong` and `breakout` in
worker processes; `hybrid` and `envpool` are the same with these backends. Stable-Baselines3's is `learn()` with its
CnnPolicy and its own preprocessing, in DummyVecEnv and in SubprocVecEnv, `SB3` being the faster of the two. CleanRL's
is `ppo_atari.py` as it is, in a SyncVectorEnv of Gymnasium 0.29.1. PyTorch has one thread or one per core, whichever is
faster; TensorFlow has those of our presets, one per core.

What differs: ours store the final observation of every step, the peers do not; EnvPool's games are its own build, and
resize images with another filter."""

GAMES = ("Pong", "Breakout")
NUM_ENVS = 8

# Arguments of EnvPool's for what our presets have in wrappers; it skips and stacks four frames itself.
_ENVPOOL_GAME: Mapping[str, PlainData] = {"episodic_life": True, "reward_clip": True}


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite; an iteration takes seconds, so rounds are one or two."""
    rounds = 3 if quick else 5
    return [
        Case(f"{game}/{NUM_ENVS}", "steps/s", _contestants(game), rounds)
        for game in (GAMES[:1] if quick else GAMES)
    ]


def ours(game: str, env_backend: str) -> Iterator[Measure]:
    """Measures our iterations."""
    from benchmarks import library

    config = make_config(game, NUM_ENVS, env_backend)
    with library.learner(config) as learner:
        yield rate(learner.iterate, config.num_envs * config.rollout_length)


def sb3(game: str, vec_env: str) -> Iterator[Measure]:
    """Measures the iterations of Stable-Baselines3."""
    from benchmarks.sb3 import iteration
    from benchmarks.sb3_atari import make_atari_envs, make_atari_ppo
    from benchmarks.torch_threads import WithBestThreads

    config = make_config(game, NUM_ENVS)
    with contextlib.closing(make_atari_envs(vec_env, game, NUM_ENVS)) as envs:
        work = iteration(make_atari_ppo(envs, config))
        yield WithBestThreads(work, rate(work, NUM_ENVS * config.rollout_length))


def make_config(game: str, num_envs: int, env_backend: str = "process") -> Config:
    """Returns the configuration of a game, by its preset, with an endless number of steps."""
    import agents

    changes: dict[str, PlainData] = {"num_envs": num_envs, "env_backend": env_backend}
    if env_backend == "envpool":
        changes |= {"env": f"{game}-v5", "env_kwargs": dict(_ENVPOOL_GAME)}
        changes |= {"env_wrappers": [], "train_wrappers": []}
    return agents.load_config(game.lower(), **changes, steps=10**12, eval_episodes=1)


def _contestants(game: str) -> tuple[Contestant, ...]:
    backends = {OURS: "process", "hybrid": "hybrid", "envpool": "envpool"}
    return (
        *(
            Contestant(name, f"{__name__}:ours", {"game": game, "env_backend": backend})
            for name, backend in backends.items()
        ),
        *(
            Contestant(f"SB3-{vec_env}", f"{__name__}:sb3", {"game": game, "vec_env": vec_env})
            for vec_env in ("DummyVecEnv", "SubprocVecEnv")
        ),
        *Contestant(
            "CleanRL",
            "benchmarks.peers.clean_rl:images",
            {"game": game, "num_envs": NUM_ENVS, "rollout_length": 128},
            peer="cleanrl",
        ).by_threads(),
    )
