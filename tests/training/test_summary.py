import math

import numpy as np
import pytest
from gymnasium import spaces

from agents.policies.policy import Policy
from agents.settings.config_file import load_config
from agents.training.summary import summarize

BOTH = spaces.Box(-1, 1, (3,)), spaces.Box(-2, 2, (2,))


def test_weights_are_those_of_the_policy():
    config = load_config("pendulum", layers=[5], recurrent="gru", recurrent_units=7)
    lines = summarize(config, *BOTH)
    weights = {
        name: variable.shape
        for name, variable in Policy(*BOTH, config).variables().items()
        if name.startswith("network/")
    }
    shown = dict(line.split(maxsplit=1) for line in lines if line.startswith("  "))
    assert {f"network/{name}" for name in shown} == weights.keys()
    for name, text in shown.items():
        assert text == " x ".join(map(str, weights[f"network/{name}"]))
    total = sum(math.prod(shape) for shape in weights.values())
    assert any(line.startswith(f"network: {total:,} weights, ") for line in lines)


def test_memory_and_counts_of_iterations():
    config = load_config(
        "default", env="X-v0", network="nature", num_envs=10, rollout_length=100,
        minibatch_size=250, epochs=3, steps=5500, eval_interval=1000, eval_episodes=4,
    )  # fmt: skip
    space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    text = "\n".join(summarize(config, space, spaces.Discrete(3), episode_limit=50))
    size = 1000 * (2 * (84 * 84 * 4 + 8) + 4 * 3 + 16)
    assert f"rollout: 10 environments x 100 steps, {size / 1e6:.1f} MB" in text
    assert "update: 3 epochs of 4 minibatches of 250 steps" in text
    assert (
        "training: 6 iterations of 1,000 steps, 6 evaluations of 4 episodes, at most 1,200 further steps"
        in text
    )
    assert "observations: Box(0, 255, (84, 84, 4), uint8)" in text


@pytest.mark.parametrize("steps", [1, 100, 5500, 6000])
@pytest.mark.parametrize("interval", [1, 100, 999, 1000, 1001, 2000, 2500, 100_000])
def test_evaluations_are_those_that_training_makes(steps, interval):
    config = load_config(
        "default",
        num_envs=10,
        rollout_length=10,
        minibatch_size=50,
        steps=steps,
        eval_interval=interval,
    )
    lines = summarize(config, spaces.Box(-1, 1, (3,)), spaces.Discrete(3))
    ends = range(100, steps + 100, 100)
    due = sum(end // interval > (end - 100) // interval or end >= steps for end in ends)
    assert f"{len(ends):,} iterations of 100 steps, {due:,} evaluations of" in lines[-1]


def test_scaled_actions_are_named():
    observ, far = spaces.Box(-1, 1, (3,)), spaces.Box(-1000, 1000, (2,))
    for settings, scaled in [
        ({}, True),
        ({"scale_actions": "never"}, False),
        ({"policy": "squashed_gaussian"}, False),
    ]:
        lines = summarize(load_config("pendulum", **settings), observ, far)
        assert (f"actions: {far}, scaled from [-1, 1]" in lines) == scaled
    assert f"actions: {BOTH[1]}" in summarize(load_config("pendulum"), *BOTH)


def test_an_algorithm_of_ones_own_describes_itself(tmp_path, monkeypatch):
    (tmp_path / "describing.py").write_text(
        "from agents.ppo import PPO\n"
        "class Mine(PPO):\n"
        "    @classmethod\n"
        "    def describe(cls, config, *spaces):\n"
        "        return [f'mine: {config.num_envs} environments, {len(spaces)} spaces']\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = load_config("pendulum", algorithm="describing:Mine", num_envs=3, minibatch_size=10)
    assert "mine: 3 environments, 2 spaces" in summarize(config, *BOTH)
