"""This library, set up for the suites. TensorFlow is imported no sooner than a function needs it."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.config import Config
    from agents.runs import Learner

# The same work for everyone: what is said here is what the peers do by default or are told to do. Normalisation of
# observations and rewards is switched off, since the peers have it as an addition.
PPO_SETTINGS: dict[str, Any] = {
    "epochs": 10,
    "minibatch_size": 64,
    "layers": (64, 64),
    "activation": "tanh",
    "learning_rate": 3e-4,
    "learning_rate_schedule": "constant",
    "adam_epsilon": 1e-5,
    "discount": 0.99,
    "gae_lambda": 0.95,
    "clip_ratio": 0.2,
    "value_clip": 0.0,
    "value_coef": 0.5,
    "entropy_coef": 0.0,
    "max_gradient_norm": 0.5,
    "normalize_advantages": True,
    "normalize_observ": False,
    "normalize_reward": False,
    "steps": 10**12,
    "eval_episodes": 1,
}


def same_work(**settings: Any) -> Config:
    """The configuration for what everyone does, but for these settings."""
    from agents import load_config

    return load_config("default", **{**PPO_SETTINGS, **settings})


@contextlib.contextmanager
def learner(config: Config) -> Iterator[Learner]:
    """An agent as `agents.scripts.train` makes it, ready for `iterate()`."""
    from agents import runs
    from agents.families import check_environment

    spec = check_environment(config)
    with contextlib.ExitStack() as stack:
        train_envs = stack.enter_context(
            contextlib.closing(runs.make_environments(config, spec, config.num_envs, training=True))
        )
        eval_envs = stack.enter_context(contextlib.closing(runs.make_environments(config, spec, config.eval_episodes)))
        runs.start_tensorflow(config.threads)
        learner = runs.Learner(train_envs, eval_envs, config)
        learner.begin_episodes()
        yield learner


@contextlib.contextmanager
def algorithm(**settings: Any) -> Iterator[tuple[Any, Any]]:
    """Environments in the graph, reset, and PPO for them: the two that `simulate` takes."""
    from agents import runs
    from agents.families import check_environment

    config = same_work(**settings)
    with contextlib.closing(runs.make_environments(config, check_environment(config), config.num_envs)) as batch_env:
        runs.start_tensorflow(config.threads)
        from agents.ppo import PPO
        from agents.tools import InGraphBatchEnv

        envs = InGraphBatchEnv(batch_env)
        ppo = PPO(envs, config)
        envs.reset()
        yield envs, ppo


class Stopwatch:
    """Measures calls of functions in their place, so that what is measured is the code that people run.

    Attributes:
      seconds: Of all calls so far, in their order, by label; without those of watched functions that they called.
    """

    def __init__(self) -> None:
        """Starts with nothing."""
        self.seconds: dict[str, list[float]] = {}
        self._within = [0.0]  # Seconds of watched functions in each call that is under way, and outside of all.

    def watch(self, owner: Any, name: str, label: str = "", then: Callable[[], None] = lambda: None) -> None:
        """Replaces a function or method by one that measures it and calls `then` afterwards."""
        function, calls = getattr(owner, name), self.seconds.setdefault(label or name, [])

        @functools.wraps(function, updated=())
        def watched(*args: Any, **kwargs: Any) -> Any:
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
