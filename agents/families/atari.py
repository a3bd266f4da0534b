"""What learning from Atari's games takes, as functions for the settings `env_wrappers` and `train_wrappers`.

`preprocess` is for every environment; `EpisodicLife` and `sign_of_reward` are for those that are learned from. Sources:
Mnih et al. 2015, Human-level control through deep reinforcement learning (https://doi.org/10.1038/nature14236), and
OpenAI's baselines. Games are to be made with frameskip 1.
"""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TransformObservation, TransformReward

Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
Reset = tuple[Any, dict[str, Any]]

_FRAME_SKIP, _SIZE, _FRAMES = 4, 84, 4


def preprocess(env: gymnasium.Env) -> gymnasium.Env:
    """Makes what is seen small, and steps worth taking.

    Games begin after 1 to 30 frames without an action, and with FIRE where there is such a button. A step lasts four
    frames; what is seen is the brighter of the last two at every pixel. Observations are the last four of these
    pictures, grey, uint8 [84, 84, 4], the newest one last.

    Raises:
      ValueError: The environment skips frames itself.
    """
    frame_rate = env.metadata.get("render_fps") or 60
    env = AtariPreprocessing(env, noop_max=30, frame_skip=_FRAME_SKIP, screen_size=_SIZE)
    if "FIRE" in env.unwrapped.get_action_meanings():  # type: ignore[attr-defined]
        env = FireStart(env)
    env = FrameStackObservation(env, _FRAMES)  # uint8 [4, 84, 84]
    space = spaces.Box(0, 255, (_SIZE, _SIZE, _FRAMES), np.uint8)
    env = TransformObservation(env, _channels_last, space)
    env.metadata = {**env.metadata, "render_fps": frame_rate / _FRAME_SKIP}  # Videos have a frame a step.
    return env


def sign_of_reward(env: gymnasium.Env) -> gymnasium.Env:
    """Makes rewards -1, 0 or 1, so that one set of settings fits all games."""
    return TransformReward(env, _sign)


class FireStart(gymnasium.Wrapper, RecordConstructorArgs):
    """Presses FIRE where a game waits for it: when it begins, and after a life is lost.

    When it begins, that is a step of the reset. After a lost life, FIRE takes the place of the next action.
    """

    def __init__(self, env: gymnasium.Env):
        """Wraps an environment whose infos tell the `lives` that are left."""
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._fire = env.unwrapped.get_action_meanings().index("FIRE")  # type: ignore[attr-defined]
        self._lives, self._waits = 0, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Resets the environment and presses FIRE; its reward is lost."""
        _, reset_info = self.env.reset(seed=seed, options=options)
        observ, _, terminated, truncated, info = self.env.step(self._fire)
        if terminated or truncated:
            observ, info = self.env.reset(options=options)
        self._lives, self._waits = info["lives"], False
        return observ, {**reset_info, **info}

    def step(self, action: Any) -> Step:
        """Takes the action, or presses FIRE where a life was lost in the step before."""
        observ, reward, terminated, truncated, info = self.env.step(self._fire if self._waits else action)
        self._waits = 0 < info["lives"] < self._lives
        self._lives = info["lives"]
        return observ, reward, terminated, truncated, info


class EpisodicLife(gymnasium.Wrapper, RecordConstructorArgs):
    """Ends an episode, as in a final state, where a life is lost; the next one goes on with the same game.

    Only where the game is over, or with a seed, a reset begins a new game. Rewards of the game are not learned across
    a lost life, so losing one is to be avoided.
    """

    def __init__(self, env: gymnasium.Env):
        """Wraps an environment whose infos tell the `lives` that are left, and whose action 0 does nothing."""
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._lives, self._is_over = 0, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Begins a new game with a seed or where the last one is over, and else goes on with a step without action."""
        if self._is_over or seed is not None:
            observ, info = self.env.reset(seed=seed, options=options)
        else:
            observ, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                observ, info = self.env.reset(options=options)
        self._lives, self._is_over = info["lives"], False
        return observ, info

    def step(self, action: Any) -> Step:
        """Steps the game; `terminated` is True where a life was lost as well."""
        observ, reward, terminated, truncated, info = self.env.step(action)
        self._is_over = terminated or truncated
        # Some games show 0 lives for some frames before they are over.
        lost = 0 < info["lives"] < self._lives
        self._lives = info["lives"]
        return observ, reward, terminated or lost, truncated, info


def _sign(reward: SupportsFloat) -> float:
    return float(np.sign(float(reward)))


def _channels_last(frames: np.ndarray) -> np.ndarray:
    return np.moveaxis(frames, 0, -1)
