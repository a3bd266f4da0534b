"""Suite: whole iterations, collecting and learning."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import ours as library
from benchmarks.case import OURS, Case, Contestant
from benchmarks.child import Measure, rate

TITLE = "Training"
INTRO = """\
Environment steps a second from end to end, collecting and learning, without evaluation, logging and checkpoints.
Everyone does the same work: PPO with 8 environments x 256 steps or 32 x 64, 10 epochs, minibatches of 64, separate
64-64 tanh networks for policy and value, a state-independent deviation, Adam with a constant 3e-4, discount 0.99,
lambda 0.95, clipping at 0.2, gradient norm 0.5, value coefficient 0.5, no entropy bonus, no value clipping,
advantages normalised. Ours is `Learner.iterate()`; Stable-Baselines3's is `learn()` with its MlpPolicy on the CPU,
in DummyVecEnv and in SubprocVecEnv, `SB3` being the faster of the two; skrl's is `SequentialTrainer.train()` on a
SyncVectorEnv. PyTorch has one thread or as many as cores, whichever a trial shows to be faster; TensorFlow has those
of our default settings.

What differs: we normalise observations and rewards by default, which is switched off here; we compute final values
at every step and return arrays for histograms, they do not; skrl normalises advantages over the rollout, not over
the minibatch, has Adam's epsilon at 1e-8, and initial weights of its own. For cases named `tf` our environments are
TensorFlow programs, the peers' are Gymnasium's.

`logging` is the share of a preset's training time that goes into writing all scalars and histograms at the preset's
intervals (the first iteration, which compiles, evaluations and checkpoints are left out of that time); `graph-calls`
are the graph calls in one iteration."""


def cases(quick: bool) -> list[Case]:
    """All cases of this suite."""
    effort = {"rounds": 3, "seconds": 0.5} if quick else {"rounds": 5, "seconds": 2.0}
    sizes = [
        ("Pendulum-v1", "process", 8, 256),
        ("Pendulum-v1", "process", 32, 64),
        ("HalfCheetah-v5", "process", 8, 256),
        ("HalfCheetah-v5", "process", 32, 64),
        ("Pendulum-v1", "tf", 8, 256),
        ("CartPole-v1", "tf", 8, 256),
    ]
    if quick:
        sizes.remove(("HalfCheetah-v5", "process", 32, 64))
    found = []
    for env, backend, num_envs, rollout_length in sizes:
        size = {"env": env, "num_envs": num_envs, "rollout_length": rollout_length}
        contestants = (
            Contestant(OURS, f"{__name__}:ours", {**size, "env_backend": backend}),
            Contestant("SB3-DummyVecEnv", f"{__name__}:sb3", {**size, "vec_env": "DummyVecEnv"}),
            Contestant("SB3-SubprocVecEnv", f"{__name__}:sb3", {**size, "vec_env": "SubprocVecEnv"}),
            Contestant("skrl", f"{__name__}:skrl", size),
        )
        found.append(Case(f"{env}/{backend}/{num_envs}", "steps/s", contestants, **effort))
    for backend in ("process", "tf"):
        preset = {"preset": "pendulum", "env_backend": backend}
        logging = (Contestant(OURS, f"{__name__}:logging", {**preset, "steps": 40_000 if quick else 100_000}),)
        found.append(Case(f"Pendulum-v1/{backend}/logging", "%", logging, rounds=1 if quick else 5))
        calls = (Contestant(OURS, f"{__name__}:graph_calls", preset),)
        found.append(Case(f"Pendulum-v1/{backend}/graph-calls", "calls", calls, rounds=1))
    return found


def ours(**settings: Any) -> Iterator[Measure]:
    """Our iterations."""
    with library.learner(library.same_work(**settings)) as learner:
        yield rate(learner.iterate, settings["num_envs"] * settings["rollout_length"])


def sb3(env: str, num_envs: int, rollout_length: int, vec_env: str) -> Iterator[Measure]:
    """Those of Stable-Baselines3."""
    from benchmarks.sb3 import iteration, make_envs, make_ppo
    from benchmarks.torch_threads import WithBestThreads

    with contextlib.closing(make_envs(vec_env, env, num_envs)) as envs:
        work = iteration(make_ppo(envs, rollout_length))
        yield WithBestThreads(work, rate(work, num_envs * rollout_length))


def skrl(env: str, num_envs: int, rollout_length: int) -> Iterator[Measure]:
    """Those of skrl."""
    from benchmarks.skrl_ppo import make_trainer
    from benchmarks.torch_threads import WithBestThreads

    work = make_trainer(env, num_envs, rollout_length).train
    yield WithBestThreads(work, rate(work, num_envs * rollout_length))


def logging(preset: str, env_backend: str, steps: int) -> Iterator[Measure]:
    """Percentage of the time of iterations and logging that logging takes, in the loop that people run."""
    from pathlib import Path

    from agents import load_config, runs
    from agents.runs.run_directory import RunDirectory
    from agents.scripts.train import train

    config = load_config(preset, env_backend=env_backend, steps=steps, eval_interval=10**12, eval_episodes=1)
    runs.start_tensorflow(config.threads)
    watch = library.Stopwatch()
    watch.watch(runs.Learner, "iterate")
    for owner, name in ((runs.Learner, "report"), (runs.Metrics, "scalars")):
        watch.watch(owner, name, "scalars")
    for owner, name in ((runs.Learner, "arrays"), (runs.Metrics, "histograms")):
        watch.watch(owner, name, "histograms")

    def measure(seconds: float) -> tuple[float, str]:
        for calls in watch.seconds.values():
            calls.clear()
        with tempfile.TemporaryDirectory() as folder:
            list(train(config, RunDirectory(Path(folder) / "run")))
        first, *others = watch.seconds["iterate"]
        iterating = sum(others) + statistics.median(others)  # As if the first had not been compiled.
        shares = {name: sum(watch.seconds[name]) for name in ("scalars", "histograms")}
        whole = iterating + sum(shares.values())
        parts = ", ".join(f"{name} {100 * share / whole:.1f} %" for name, share in shares.items())
        return 100 * sum(shares.values()) / whole, parts

    yield measure


def graph_calls(preset: str, env_backend: str) -> Iterator[Measure]:
    """How many graphs an iteration executes."""
    from agents import load_config

    with library.learner(load_config(preset, env_backend=env_backend, eval_episodes=1)) as learner:

        def measure(seconds: float) -> float:
            learner.iterate()  # Traces and compiles.
            return count_graph_calls(learner.iterate)

        yield measure


def count_graph_calls(work: Callable[[], Any]) -> int:
    """How many graphs something executes. Raises RuntimeError if none is seen, which must not pass for few."""
    from tensorflow.python.framework import op_callbacks

    names: list[str] = []

    def callback(op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None):
        if graph is None:
            names.append(op_type.decode() if isinstance(op_type, bytes) else op_type)

    op_callbacks.add_op_callback(callback)
    try:
        work()
    finally:
        op_callbacks.remove_op_callback(callback)
    calls = sum(name.startswith("__inference") for name in names)
    if not calls:
        raise RuntimeError(f"No graph call was seen, of {len(names)} operations; does TensorFlow name them anew?")
    return calls
