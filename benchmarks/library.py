"""This library, set up for the suites; TensorFlow is imported when a function needs it."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from benchmarks.environments import constructors
from benchmarks.ppo_settings import PPOSettings

if TYPE_CHECKING:
    import agents
    from agents.learning.reduction import Reducer
    from agents.settings.config import Config
    from agents.training.learner import Learner


def make_config(settings: PPOSettings, **others: str | int | float) -> Config:
    """Returns the configuration of the settings, and of others such as `env`."""
    import agents

    endless = {"steps": 10**12, "eval_episodes": 1}
    return agents.load_config("default", **{**asdict(settings), **endless, **others})


@contextlib.contextmanager
def learner(
    config: Config, num_learners: int = 1, make_reducer: Callable[[], Reducer] | None = None
) -> Iterator[Learner]:
    """Makes a learner as `agents.train` does, ready for `iterate()`.

    Args:
      config: The experiment, of all learners together.
      num_learners: How many there are.
      make_reducer: Makes what combines them, once TensorFlow has started; by default nothing does.
    """
    from agents.graph.backend import make_backend
    from agents.tensorflow_setup import start_tensorflow

    backend = make_backend(config)
    spec = backend.check()
    with contextlib.ExitStack() as stack:
        train_envs = backend.make(spec, config.num_envs // num_learners, training=True)
        stack.enter_context(contextlib.closing(train_envs))
        eval_envs = backend.make(spec, config.eval_episodes)
        stack.enter_context(contextlib.closing(eval_envs))
        start_tensorflow(config.threads)
        from agents.learning.reduction import SINGLE_LEARNER
        from agents.training.find_algorithm import find_algorithm
        from agents.training.learner import Learner

        reducer = make_reducer() if make_reducer else SINGLE_LEARNER
        algorithm = find_algorithm(config.algorithm)
        learner = Learner(train_envs, eval_envs, algorithm, config, reducer)
        reducer.copy_from_chief(learner.variables())
        learner.begin_episodes()
        yield learner


@contextlib.contextmanager
def algorithm(
    env: str,
    num_envs: int,
    rollout_length: int,
    settings: PPOSettings,
    batch_env: agents.BatchEnv | None = None,
) -> Iterator[tuple[agents.InGraphBatchEnv, agents.PPO]]:
    """Makes the arguments of `agents.simulate`: environments in the graph, reset, and PPO.

    Args:
      env: Name of the environment.
      num_envs: Number of environments.
      rollout_length: Steps of a rollout.
      settings: Of PPO.
      batch_env: The environments, which are closed afterwards; by default they are made here.
    """
    import agents
    from agents.tensorflow_setup import start_tensorflow

    config = make_config(settings, env=env, num_envs=num_envs, rollout_length=rollout_length)
    batch_env = batch_env or agents.make_batch_env(constructors(env, num_envs))
    with contextlib.closing(batch_env):
        start_tensorflow(config.threads)
        envs = agents.InGraphBatchEnv(batch_env)
        ppo = agents.PPO(envs, config)
        envs.reset()
        yield envs, ppo


class Stopwatch:
    """Measures calls of functions in place, so that the code that users run is measured.

    Attributes:
      seconds: Durations of the calls so far, by label, without those of watched functions that they
        called.
    """

    def __init__(self) -> None:
        """Initializes the stopwatch without any durations."""
        self.seconds: dict[str, list[float]] = {}
        # Seconds of watched functions in each running call; the first entry is of the caller.
        self._within = [0.0]

    def watch(
        self, owner: object, name: str, label: str = "", then: Callable[[], None] = lambda: None
    ) -> None:
        """Replaces a function or method by one that measures it and calls `then` afterwards."""
        function: Callable[..., object] = getattr(owner, name)
        calls = self.seconds.setdefault(label or name, [])

        @functools.wraps(function, updated=())
        def watched(*args: object, **kwargs: object) -> object:
            self._within.append(0.0)
            start = time.perf_counter()
            try:
                result = function(*args, **kwargs)
            finally:
                elapsed = time.perf_counter() - start
                calls.append(elapsed - self._within.pop())
                self._within[-1] += elapsed
            then()
            return result

        setattr(owner, name, watched)


def watch_logging(watch: Stopwatch, config: Config) -> None:
    """Watches the iterations of a training, and its logging as `scalars` and `histograms`."""
    from agents.tensorflow_setup import start_tensorflow

    start_tensorflow(config.threads)
    from agents.runs.metrics import Metrics
    from agents.training.learner import Learner

    watch.watch(Learner, "iterate")
    watch.watch(Learner, "report", "scalars")
    watch.watch(Metrics, "scalars", "scalars")
    watch.watch(Learner, "arrays", "histograms")
    watch.watch(Metrics, "histograms", "histograms")


def watch_start(watch: Stopwatch) -> None:
    """Watches the parts of the training command, and exits after the first iteration."""
    from agents.graph import backend
    from agents.scripts import train

    def exit_process() -> None:
        raise SystemExit(0)

    def watch_learner() -> None:
        from agents.training.learner import Learner

        watch.watch(Learner, "__init__", "building")
        watch.watch(Learner, "iterate", "first iteration", then=exit_process)

    watch.watch(backend.EnvBackend, "make", "environments")
    watch.watch(backend, "start_tensorflow", "TensorFlow")  # By backend tf within `make`.
    # Importing the learner imports TensorFlow, so it is watched afterwards.
    watch.watch(train, "start_tensorflow", "TensorFlow", then=watch_learner)
