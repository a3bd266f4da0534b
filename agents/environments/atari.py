"""Preprocessing of Atari games, for the settings `env_wrappers` and `train_wrappers`.

`preprocess` is for all environments; `EpisodicLife` and `sign_of_reward` are for those of training.
Sources: Mnih et al. 2015, Human-level control through deep reinforcement learning
(https://doi.org/10.1038/nature14236), and OpenAI's baselines. Games must be made with frameskip 1.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import (
    AtariPreprocessing,
    FrameStackObservation,
    TransformObservation,
    TransformReward,
)

from agents.environments.wrappers.interface import Reset, Step
from agents.own_copy import own_copy
from agents.types import Env, NestedArray, Options

_FRAME_SKIP, _SIZE, _FRAMES = 4, 84, 4


def preprocess(env: Env) -> Env:
    """Applies no-op starts, FIRE starts, frame skip, max pooling, resizing and frame stacking.

    Games start with 1 to 30 no-op frames, and with FIRE if the game has this action. A step takes
    four frames and observes the maximum of the last two. Observations are the last four of these
    in grayscale, uint8 [84, 84, 4], the newest last.

    Args:
      env: A game with observations uint8 [height, width, 3].

    Raises:
      ValueError: The environment skips frames itself.
    """
    frame_rate = env.metadata.get("render_fps") or 60
    # uint8 [84, 84]
    env = AtariPreprocessing(env, noop_max=30, frame_skip=_FRAME_SKIP, screen_size=_SIZE)
    if "FIRE" in env.unwrapped.get_action_meanings():  # type: ignore[attr-defined]
        env = FireStart(env)
    env = FrameStackObservation(env, _FRAMES)  # uint8 [4, 84, 84]
    space = spaces.Box(0, 255, (_SIZE, _SIZE, _FRAMES), np.uint8)
    env = TransformObservation(env, lambda frames: np.moveaxis(frames, 0, -1), space)  # [84, 84, 4]
    # Videos have one frame per step.
    env.metadata = {**env.metadata, "render_fps": frame_rate / _FRAME_SKIP}
    return env


def sign_of_reward(env: Env) -> Env:
    """Clips rewards to -1, 0 or 1 by their sign, so that the same settings fit all games."""
    return TransformReward(env, lambda reward: float(np.sign(float(reward))))


class FireStart(gymnasium.Wrapper, RecordConstructorArgs):
    """Presses FIRE at the start of a game and after a lost life.

    At the start, this is a step of the reset. After a lost life, FIRE replaces the next action.
    """

    def __init__(self, env: Env):
        """Initializes the wrapper.

        Args:
          env: Environment with the action FIRE, whose infos hold the remaining `lives`.
        """
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._fire = env.unwrapped.get_action_meanings().index("FIRE")  # type: ignore[attr-defined]
        self._lives, self._lost_life = 0, False

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Resets the environment and presses FIRE; the reward of this step is dropped."""
        _, reset_info = self.env.reset(seed=seed, options=own_copy(options))
        observ, _, terminated, truncated, info = self.env.step(self._fire)
        if terminated or truncated:
            observ, info = self.env.reset(options=options)
        self._lives, self._lost_life = info["lives"], False
        return observ, {**reset_info, **info}

    def step(self, action: NestedArray) -> Step:
        """Takes the action, or FIRE if the previous step lost a life."""
        observ, reward, terminated, truncated, info = self.env.step(
            self._fire if self._lost_life else action
        )
        self._lost_life = 0 < info["lives"] < self._lives
        self._lives = info["lives"]
        return observ, reward, terminated, truncated, info


class EpisodicLife(gymnasium.Wrapper, RecordConstructorArgs):
    """Terminates the episode when a life is lost; the next episode continues the same game.

    A reset starts a new game only after a game over or with a seed; with AtariPreprocessing's
    `terminal_on_life_loss`, each reset does. Returns do not extend beyond a lost life, so policies
    learn to avoid losing one.
    """

    def __init__(self, env: Env):
        """Initializes the wrapper.

        Args:
          env: Environment whose action 0 is a no-op and whose infos hold the remaining `lives`.
        """
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._lives, self._game_over = 0, True

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> Reset:
        """Starts a new game after a game over or with a seed; otherwise takes a no-op step."""
        if self._game_over or seed is not None:
            observ, info = self.env.reset(seed=seed, options=options)
        else:
            observ, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                observ, info = self.env.reset(options=options)
        self._lives, self._game_over = info["lives"], False
        return observ, info

    def step(self, action: NestedArray) -> Step:
        """Steps the game; a lost life also sets `terminated`."""
        observ, reward, terminated, truncated, info = self.env.step(action)
        self._game_over = terminated or truncated
        # Some games report 0 lives for some frames before they are over.
        lost = 0 < info["lives"] < self._lives
        self._lives = info["lives"]
        return observ, reward, terminated or lost, truncated, info
