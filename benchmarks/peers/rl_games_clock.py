"""Trains with rl_games by a configuration file of its package, for the suite `clock`.

    python -m benchmarks.peers.rl_games_clock FILE ENV STEPS SEED

It prints a line for every episode. FILE is relative to the package's folder of configurations, ENV an
environment of EnvPool.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.episode_lines import episode_line


def train(file: str, env: str, steps: int, seed: int) -> None:
    """Trains on the CPU for some environment steps."""
    import rl_games
    import yaml
    from rl_games.common.algo_observer import DefaultAlgoObserver
    from rl_games.torch_runner import Runner

    class EpisodePrinter(DefaultAlgoObserver):  # type: ignore[misc, unused-ignore]
        """Prints the returns of finished episodes, before `reward_shaper`."""

        steps = 0

        def process_infos(self, infos: object, done_indices: object) -> None:
            """Called after every step, before the sums of rewards start again."""
            self.steps += self.algo.num_actors
            for score in self.algo.current_rewards[done_indices].flatten().tolist():
                print(episode_line(self.steps, score))

    path = Path(rl_games.__file__).parent / "configs" / file
    parameters = yaml.safe_load(path.read_text())["params"]
    parameters["seed"] = seed
    config = parameters["config"]
    others = config.get("env_config", {})
    config.update(
        env_name="envpool",
        env_config={**others, "env_name": env, "env_type": "gymnasium", "seed": seed},
        device="cpu",
        max_epochs=-1,
        max_frames=steps,
        score_to_win=10**9,  # Not to end there.
        save_best_after=10**9,
    )
    runner = Runner(EpisodePrinter())
    runner.load({"params": parameters})
    runner.run({"train": True})


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
