"""Trains with this library: `python -m benchmarks.clock_ours OPTIONS`, those of the training command.

It prints a line for every episode.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from agents.runs.training_statistics import EpisodeStatistics
from agents.scripts import train
from benchmarks.episode_lines import episode_line


def print_episodes(add: Callable[..., None]) -> Callable[..., None]:
    """Returns `EpisodeStatistics.add` that also prints the episodes, in the order of their ends."""
    steps = 0

    def printing_add(
        self: EpisodeStatistics, done: np.ndarray, episode_return: np.ndarray, *others: Any
    ) -> None:
        nonlocal steps
        num_envs = done.shape[1]
        for step, env in np.argwhere(done):
            score = float(episode_return[step, env])
            print(episode_line(steps + (int(step) + 1) * num_envs, score))
        steps += done.size
        add(self, done, episode_return, *others)

    return printing_add


if __name__ == "__main__":
    EpisodeStatistics.add = print_episodes(EpisodeStatistics.add)  # type: ignore[method-assign]
    train.main(sys.argv[1:])
