"""The dashboards page explains every tag that a training writes."""

import re
from pathlib import Path

import pytest

from tests.runs.shown_events import events

PAGE = Path(__file__).parents[2] / "docs/guides/dashboards.md"

# What adds tags, all at once. Only the tags count: a single update of a tiny network.
SETTINGS = {
    "env": "Pendulum-v1", "env_backend": "inline", "max_episode_steps": 4, "num_envs": 2, "rollout_length": 4,
    "minibatch_size": 8, "epochs": 1, "layers": (2,), "objective": "clip_kl", "critic_learning_rate": 1e-3,
    "normalize_value": True, "on_nonfinite": "skip", "env_restarts": {"limit": 1, "window": 10}, "steps": 8,
    "eval_episodes": 1,
}  # fmt: skip

SAC_SETTINGS = {
    "env_backend": "inline", "max_episode_steps": 4, "num_envs": 2, "rollout_length": 4, "layers": (2,), "steps": 8,
    "eval_episodes": 1, "learning_starts": 0, "batch_size": 2, "on_nonfinite": "skip",
}  # fmt: skip


def explained():
    """Patterns of the tags in the first column of the table."""
    tags = re.findall(r"^\| `([a-z_]+/[^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    return [re.sub("<[a-z]+>", ".+", tag) for tag in tags]


@pytest.fixture(scope="module")
def tags(tmp_path_factory):
    """Tags that TensorBoard shows of a run with each algorithm."""
    import tensorflow as tf

    from agents.scripts.train import train
    from agents.settings.config_file import load_config

    tf.config.run_functions_eagerly(True)  # Nothing is compiled.
    try:
        configs = load_config("default", **SETTINGS), load_config("sac_pendulum", **SAC_SETTINGS)
        runs = [
            score.run
            for config in configs
            for score in train(config, logdir=tmp_path_factory.mktemp("logdir"))
        ]
    finally:
        tf.config.run_functions_eagerly(False)
    return {tag for run in runs for folder in ("train", "eval") for tag in events(run / folder)}


def test_every_tag_is_explained(tags):
    assert {"rollout/advantage", "replay/td_error"} <= tags
    unexplained = [
        tag
        for tag in tags
        if "/" in tag and not any(re.fullmatch(pattern, tag) for pattern in explained())
    ]
    assert not unexplained


def test_explained_tags_are_unique():
    assert len(explained()) > 30
    assert len(explained()) == len(set(explained()))
