"""Suite: whole iterations, collecting and learning."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import library
from benchmarks.case import OURS, Case, Contestant, Settings
from benchmarks.contestant import Measure, rate
from benchmarks.ppo_settings import PPOSettings

TITLE = "Training"
INTRO = """\
Environment steps per second from end to end, collecting and learning, without evaluation, logging and checkpoints.
All contestants do the same work: PPO with 8 environments x 256 steps or 32 x 64, 10 epochs, minibatches of 64,
separate 64-64 tanh networks for policy and value function, a state-independent standard deviation, Adam with a
constant 3e-4, discount 0.99, lambda 0.95, clipping at 0.2, gradient norm 0.5, value coefficient 0.5, no entropy bonus,
no value clipping, normalized advantages. Ours is `Learner.iterate()`; Stable-Baselines3's is `learn()` with its
MlpPolicy on the CPU, in DummyVecEnv and in SubprocVecEnv, `SB3` being the faster of the two; skrl's is
`SequentialTrainer.train()` on a SyncVectorEnv. PyTorch has one thread or one per core, whichever is faster in a trial;
TensorFlow has one, our default, and two in cases named `tf`, where nothing else runs meanwhile: policy and value
function then learn at the same time. `1 thread` is ours with the default there.

What differs: our default normalization of observations and rewards is switched off; we compute final values at every
step and return arrays for histograms, the peers do not; skrl normalizes advantages over the rollout, not over the
minibatch, has Adam's epsilon at 1e-8, and other initial weights. For cases named `tf` our environments are TensorFlow
programs, the peers' are Gymnasium's, but for PureJaxRL's. With `hybrid`, our training process is one of the two that
step environments.

Some peers run in Python environments of their own, and with one thread or one per core, the better of which counts:

- In `envpool/8` and `/32`, ours and rl_games have EnvPool's environments, and `process` is ours with worker processes.
  rl_games runs with PyTorch's compiler and without.
- In `process/8/normalized`, observations and rewards are normalized and clipped, because CleanRL's
  `ppo_continuous_action.py` always does so. It needs Gymnasium 0.29.1, and its HalfCheetah-v4, which has the dynamics
  of v5, as does Sample Factory. CleanRL does not bootstrap where episodes are cut.
- Sample Factory collects and learns in one process. It goes through a rollout in the same order in all epochs, its
  default, and clips ratios at 0.2 and 1 / 1.2.
- PureJaxRL's is a compiled training of 20 iterations. It always clips values, and takes a time limit for a terminal
  state.
- `Pendulum-v1/tf/4` has the sizes of RLtools' own benchmark of PPO: 4 environments x 1,024 steps, 2 epochs, minibatches
  of 256, relu, discount 0.9, Adam with 1e-3. RLtools' environments are its own in C++. Its Python package compiles it
  for the processor, with Intel's MKL. It has no bound of the gradient norm.

`recurrent` is the preset `pendulum_no_velocity`, sequences of 25 steps in minibatches of 250, with its GRU and as
`feed_forward` without. `logging` is the share of a preset's training time spent on writing all scalars and histograms
at the preset's intervals (without the first iteration, which compiles, evaluations and checkpoints); `graph-calls` are
the graph calls of one iteration."""

SIZES = (
    ("Pendulum-v1", "process", 8, 256),
    ("Pendulum-v1", "process", 32, 64),
    ("HalfCheetah-v5", "process", 8, 256),
    ("HalfCheetah-v5", "process", 32, 64),
    ("Pendulum-v1", "hybrid", 8, 256),
    ("Pendulum-v1", "hybrid", 32, 64),
    ("HalfCheetah-v5", "hybrid", 8, 256),
    ("Pendulum-v1", "tf", 8, 256),
    ("CartPole-v1", "tf", 8, 256),
)


def cases(quick: bool) -> list[Case]:
    """Returns the cases of this suite."""
    rounds, seconds = (3, 0.5) if quick else (5, 2.0)
    found = []
    for env, backend, num_envs, rollout_length in SIZES:
        if quick and (env, num_envs) == ("HalfCheetah-v5", 32):
            continue
        contestants = _contestants(env, backend, num_envs, rollout_length)
        found.append(Case(f"{env}/{backend}/{num_envs}", "steps/s", contestants, rounds, seconds))
    others = {
        "HalfCheetah-v5/envpool/8": _with_envpool(8, 256),
        "HalfCheetah-v5/envpool/32": _with_envpool(32, 64),
        "HalfCheetah-v5/process/8/normalized": _normalized(),
        "Pendulum-v1/tf/4": _with_settings_of_rltools(),
    }
    for name, contestants in others.items():
        if not (quick and name == "HalfCheetah-v5/envpool/32"):
            found.append(Case(name, "steps/s", contestants, rounds, seconds))
    networks = tuple(
        Contestant(name, f"{__name__}:memory", {"recurrent": recurrent})
        for name, recurrent in ((OURS, "gru"), ("feed_forward", "none"))
    )
    found.append(Case("Pendulum-v1/process/recurrent", "steps/s", networks, rounds, seconds))
    for backend in ("process", "tf"):
        preset: Settings = {"preset": "pendulum", "env_backend": backend}
        steps = 40_000 if quick else 100_000
        share = (Contestant(OURS, f"{__name__}:logging", {**preset, "steps": steps}),)
        found.append(Case(f"Pendulum-v1/{backend}/logging", "%", share, rounds=1 if quick else 5))
        calls = (Contestant(OURS, f"{__name__}:graph_calls", preset),)
        found.append(Case(f"Pendulum-v1/{backend}/graph-calls", "calls", calls, rounds=1))
    return found


def ours(
    env: str, env_backend: str, num_envs: int, rollout_length: int, **others: str | int | float
) -> Iterator[Measure]:
    """Measures our iterations, with `PPOSettings` where no other settings are given."""
    config = library.make_config(
        PPOSettings(),
        env=env,
        env_backend=env_backend,
        num_envs=num_envs,
        rollout_length=rollout_length,
        **others,
    )
    with library.learner(config) as learner:
        yield rate(learner.iterate, num_envs * rollout_length)


def sb3(env: str, num_envs: int, rollout_length: int, vec_env: str) -> Iterator[Measure]:
    """Measures the iterations of Stable-Baselines3."""
    from benchmarks.sb3 import iteration, make_envs, make_ppo
    from benchmarks.torch_threads import WithBestThreads

    with contextlib.closing(make_envs(vec_env, env, num_envs)) as envs:
        work = iteration(make_ppo(envs, rollout_length, PPOSettings()))
        yield WithBestThreads(work, rate(work, num_envs * rollout_length))


def skrl(env: str, num_envs: int, rollout_length: int) -> Iterator[Measure]:
    """Measures the iterations of skrl."""
    from benchmarks.skrl_ppo import make_trainer
    from benchmarks.torch_threads import WithBestThreads

    work = make_trainer(env, num_envs, rollout_length, PPOSettings()).train
    yield WithBestThreads(work, rate(work, num_envs * rollout_length))


def memory(recurrent: str) -> Iterator[Measure]:
    """Measures our iterations on a task that needs memory, with a recurrent network or without."""
    import agents

    config = agents.load_config("pendulum_no_velocity", recurrent=recurrent, steps=10**12)
    with library.learner(config) as learner:
        yield rate(learner.iterate, config.num_envs * config.rollout_length)


def logging(preset: str, env_backend: str, steps: int) -> Iterator[Measure]:
    """Measures the share of logging in the time of iterations and logging, in percent."""
    import agents
    from agents.runs.run_directory import RunDirectory

    config = agents.load_config(
        preset, env_backend=env_backend, steps=steps, eval_interval=10**12, eval_episodes=1
    )
    watch = library.Stopwatch()
    library.watch_logging(watch, config)

    def measure(seconds: float) -> tuple[float, str]:
        for calls in watch.seconds.values():
            calls.clear()
        with tempfile.TemporaryDirectory() as folder:
            list(agents.train(config, RunDirectory(Path(folder) / "run")))
        first, *others = watch.seconds["iterate"]
        # As if the first iteration did not compile.
        iterating = sum(others) + statistics.median(others)
        shares = {name: sum(watch.seconds[name]) for name in ("scalars", "histograms")}
        total = iterating + sum(shares.values())
        parts = ", ".join(f"{name} {100 * share / total:.1f} %" for name, share in shares.items())
        return 100 * sum(shares.values()) / total, parts

    yield measure


def graph_calls(preset: str, env_backend: str) -> Iterator[Measure]:
    """Counts the graph calls of an iteration."""
    import agents

    config = agents.load_config(preset, env_backend=env_backend, eval_episodes=1)
    with library.learner(config) as learner:

        def measure(seconds: float) -> float:
            learner.iterate()  # Traces and compiles.
            return count_graph_calls(learner.iterate)

        yield measure


def count_graph_calls(work: Callable[[], object]) -> int:
    """Counts the graph calls of `work`.

    Raises:
      RuntimeError: No graph call was seen, which would pass for a low count.
    """
    from tensorflow.python.framework import op_callbacks

    names: list[str] = []

    def callback(
        op_type: str | bytes,
        inputs: object,
        attrs: object,
        outputs: object,
        op_name: object = None,
        graph: object = None,
    ) -> None:
        if graph is None:
            names.append(op_type.decode() if isinstance(op_type, bytes) else op_type)

    op_callbacks.add_op_callback(callback)
    try:
        work()
    finally:
        op_callbacks.remove_op_callback(callback)
    calls = sum(name.startswith("__inference") for name in names)
    if not calls:
        raise RuntimeError(
            f"No graph call was seen among {len(names)} operations; TensorFlow may name them differently now."
        )
    return calls


def _contestants(
    env: str, backend: str, num_envs: int, rollout_length: int
) -> tuple[Contestant, ...]:
    """Returns the contestants of a case with the settings that all libraries share."""
    size: Settings = {"env": env, "num_envs": num_envs, "rollout_length": rollout_length}
    contestants: tuple[Contestant, ...] = (
        *_ours({**size, "env_backend": backend}),
        Contestant("SB3-DummyVecEnv", f"{__name__}:sb3", {**size, "vec_env": "DummyVecEnv"}),
        Contestant("SB3-SubprocVecEnv", f"{__name__}:sb3", {**size, "vec_env": "SubprocVecEnv"}),
        Contestant("skrl", f"{__name__}:skrl", size),
    )
    if env == "CartPole-v1":
        contestants += _peer("PureJaxRL", "pure_jax_rl", size).by_cores()
    if (env, num_envs) == ("HalfCheetah-v5", 32):  # It wants whole rollouts in a minibatch.
        older = {**size, "env": "HalfCheetah-v4"}
        contestants += _peer("Sample Factory", "sample_factory_ppo", older).by_threads()
    return contestants


def _ours(settings: Settings) -> tuple[Contestant, ...]:
    """Returns ours; where environments are in the graph, with two threads and with one."""
    ours = Contestant(OURS, f"{__name__}:ours", settings)
    if settings["env_backend"] != "tf":
        return (ours,)
    return tuple(
        dataclasses.replace(ours, name=name, settings={**settings, "threads": threads})
        for name, threads in ((OURS, 2), ("1 thread", 1))
    )


def _with_envpool(num_envs: int, rollout_length: int) -> tuple[Contestant, ...]:
    """Returns the contestants of a case with EnvPool's environments."""
    size: Settings = {
        "env": "HalfCheetah-v5",
        "num_envs": num_envs,
        "rollout_length": rollout_length,
    }
    return (
        Contestant(OURS, f"{__name__}:ours", {**size, "env_backend": "envpool"}),
        Contestant("process", f"{__name__}:ours", {**size, "env_backend": "process"}),
        *_peer("rl_games-eager", "rl_games_ppo", {**size, "compiled": False}).by_threads(),
        *_peer("rl_games-compiled", "rl_games_ppo", {**size, "compiled": True}).by_threads(),
    )


def _normalized() -> tuple[Contestant, ...]:
    """Returns the contestants of a case with normalized observations and rewards."""
    size: Settings = {"num_envs": 8, "rollout_length": 256}
    settings: Settings = {"normalize_observ": True, "normalize_reward": True}
    env: Settings = {"env": "HalfCheetah-v5", "env_backend": "process"}
    return (
        Contestant(OURS, f"{__name__}:ours", {**size, **settings, **env}),
        *_peer("CleanRL", "clean_rl", {**size, "env": "HalfCheetah-v4"}).by_threads(),
    )


def _with_settings_of_rltools() -> tuple[Contestant, ...]:
    """Returns the contestants of a case with the settings of RLtools' benchmark of PPO."""
    size: Settings = {"num_envs": 4, "rollout_length": 1024, "minibatch_size": 256, "epochs": 2}
    settings: Settings = {"activation": "relu", "learning_rate": 1e-3, "discount": 0.9}
    env: Settings = {"env": "Pendulum-v1", "env_backend": "tf"}
    return (
        *_ours({**size, **settings, **env}),
        *_peer("RLtools", "rl_tools", size).by_threads(),
    )


def _peer(name: str, module: str, settings: Settings) -> Contestant:
    """Returns a contestant in an environment of its own."""
    peer = name.partition("-")[0].lower().replace(" ", "_")
    return Contestant(name, f"benchmarks.peers.{module}:training", settings, peer=peer)
