"""Suite: soft actor-critic."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from benchmarks import library
from benchmarks.case import LIMIT, OURS, Case, Contestant, Settings
from benchmarks.contestant import Measure, rate

TITLE = "Soft actor-critic"
INTRO = """\
Environment steps per second of SAC on one HalfCheetah-v5, after the random steps: a gradient step for each environment
step, batches of 256, two critics and a policy of 256-256. Ours is `Learner.iterate()` with the preset `sac`,
environments in the training process, and two threads; `1 thread` is the preset's default. Stable-Baselines3's is
`learn()` with PyTorch on one thread or one per core, SBX's the same with JAX on one core or all, and CleanRL's is
`sac_continuous_action.py` on HalfCheetah-v4, which has the dynamics of v5. The better number of threads counts.

The limit is the time of the update's matrix products alone, at the speed of products of 256 x 256 x 256 in XLA."""

ENV, LEARNING_STARTS = "HalfCheetah-v5", 256

# Widths of observations, actions and hidden layers; size of a batch.
OBSERVATION, ACTION, HIDDEN, BATCH = 17, 6, 256, 256


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite."""
    rounds, seconds = (3, 2.0) if quick else (5, 5.0)
    ours = Contestant(OURS, f"{__name__}:ours", {"threads": 2})
    one_thread = dataclasses.replace(ours, name="1 thread", settings={"threads": 1})
    contestants = (
        ours,
        Contestant(LIMIT, f"{__name__}:limit", {"threads": 2}),
        one_thread,
        *_peer("SB3", "sbx:stable_baselines3", ENV).by_threads(),
        *_peer("SBX", "sbx:sbx", ENV).by_cores(),
        *_peer("CleanRL", "clean_rl:sac", "HalfCheetah-v4").by_threads(),
    )
    return [Case(f"{ENV}/sac", "steps/s", contestants, rounds, seconds)]


def ours(threads: int) -> Iterator[Measure]:
    """Measures our iterations."""
    import agents

    config = agents.load_config(
        "sac",
        env_backend="inline",
        threads=threads,
        learning_starts=LEARNING_STARTS,
        eval_episodes=1,
        steps=10**12,
    )
    with library.learner(config) as learner:
        while learner.step <= LEARNING_STARTS:
            learner.iterate()
        yield rate(learner.iterate, config.num_envs * config.rollout_length)


def limit(threads: int) -> Iterator[Measure]:
    """Measures matrix products, as many as an update for each environment step has."""
    from agents.tensorflow_setup import start_tensorflow

    start_tensorflow(threads)
    import tensorflow as tf

    repeats = 500
    matrix = tf.random.normal([HIDDEN, HIDDEN], stddev=HIDDEN**-0.5)

    @tf.function(jit_compile=True)
    def multiply(product: tf.Tensor) -> tf.Tensor:
        def body(index: tf.Tensor, product: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return index + 1, tf.matmul(product, matrix)

        return tf.while_loop(lambda index, _: index < repeats, body, (0, product))[1]

    yield rate(lambda: multiply(matrix).numpy(), repeats * 2 * HIDDEN**3 / update_flops())


def update_flops() -> int:
    """Returns the floating-point operations of the products of an update.

    A product of the widths [M, I] and [I, O] takes 2 M I O operations forward, as many for the
    gradient of the weights, and as many for that of its input, if one is needed.
    """
    policy = [(OBSERVATION, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 2 * ACTION)]
    critic = [(OBSERVATION + ACTION, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)]

    def products(layers: list[tuple[int, int]]) -> int:
        return 2 * BATCH * sum(inputs * outputs for inputs, outputs in layers)

    forward = 2 * products(policy) + 2 * 3 * products(critic)
    weights = products(policy) + 2 * products(critic)
    inputs = products(policy[1:]) + 2 * products(critic[1:]) + 2 * products(critic)
    return forward + weights + inputs


def _peer(name: str, function: str, env: str) -> Contestant:
    """Returns a contestant in an environment of its own, which function names as `peer:function`."""
    settings: Settings = {"env": env, "learning_starts": LEARNING_STARTS}
    peer = "cleanrl" if name == "CleanRL" else "sbx_rl"
    return Contestant(name, f"benchmarks.peers.{function}", settings, peer=peer)
