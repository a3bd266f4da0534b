"""Action repeat: one action for several steps of the environment."""

from __future__ import annotations

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agents.environments.wrappers.interface import Step, whole_number
from agents.own_copy import own_copy
from agents.types import Env, NestedArray


class ActionRepeat(gymnasium.Wrapper, RecordConstructorArgs):
    """Repeats every action for `amount` steps or until the episode ends; sums the rewards.

    Each step gets a copy of the action, which the environment may change.
    """

    def __init__(self, env: Env, amount: int):
        """Initializes the wrapper.

        Args:
          env: Environment to wrap.
          amount: Number of its steps per action, at least 1.

        Raises:
          ValueError: The amount is not a whole number of at least 1.
        """
        RecordConstructorArgs.__init__(self, amount=amount)
        gymnasium.Wrapper.__init__(self, env)
        self._amount = whole_number("ActionRepeat: amount", amount, minimum=1)

    def step(self, action: NestedArray) -> Step:
        """Returns the last step's observation, flags and info, and the sum of the rewards."""
        observ, reward, terminated, truncated, info = self.env.step(own_copy(action))
        total = float(reward)
        for _ in range(self._amount - 1):
            if terminated or truncated:
                break
            observ, reward, terminated, truncated, info = self.env.step(own_copy(action))
            total += float(reward)
        return observ, total, terminated, truncated, info
