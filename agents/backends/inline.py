"""Gymnasium's environments in the training process."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from agents.backends.gymnasium_backend import GymnasiumBackend
from agents.errors import EnvironmentRaisedError, UsageError
from agents.types import Env, EnvConstructor
from agents.vector.batch_env import BatchEnv


class Backend(GymnasiumBackend):
    """Steps environments one after another: to debug, or for very light environments."""

    def _join(self, constructors: list[EnvConstructor], info_keys: Sequence[str]) -> BatchEnv:
        envs: list[Env] = []
        try:
            for index, make in enumerate(constructors):
                envs.append(_construct(make, index))
            return BatchEnv(envs, blocking=True, info_keys=info_keys)
        except BaseException:
            for env in envs:
                env.close()
            raise


def _construct(make: EnvConstructor, index: int) -> Env:
    """Makes an environment; its exceptions are raised as a worker process raises them."""
    try:
        return make()
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        name = type(error).__name__
        message = f"An environment's constructor raised {name}: {error}"
        raise EnvironmentRaisedError(message, traceback.format_exc(), index, name) from error
