"""Whole runs with soft actor-critic: resuming, loading, refusals."""

import json
import shutil
import signal
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents.deployment.export import export_policy
from agents.deployment.trained_policy import load_policy
from agents.errors import UsageError
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import main, train
from agents.settings.config_file import load_config
from tests.scripts.runs import arrays_of, assert_equal_runs

KILLED = """
import os, signal, sys
from agents.scripts.train import train
from agents.settings.config_file import load_config

for evaluation, _ in enumerate(train(load_config(sys.argv[1]), sys.argv[2])):
    if evaluation == 1:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def small(**settings):
    tiny = {
        "steps": 400, "checkpoint_interval": 100, "eval_interval": 120, "eval_episodes": 2, "log_interval": 50,
        "learning_starts": 60, "replay_capacity": 150, "num_envs": 2, "rollout_length": 10, "layers": (8,),
        "batch_size": 16, "max_episode_steps": 30, "env_backend": "inline", "n_step": 2,
        "histogram_interval": 50,
    }  # fmt: skip
    return load_config("sac_pendulum", **{**tiny, **settings})


def finish(run, config=None):
    return list(train(config or run.load_config(), run))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that never stopped."""
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "20260131T120000-sac")
    finish(run, small())
    return run


def test_losses_are_logged_from_the_first_gradient_step_on(whole):
    lines = map(json.loads, whole.metrics_file.read_text().splitlines())
    first, *others = (line for line in lines if "perf/steps_per_second" in line)
    assert first["step"] == 60 and "losses/entropy" not in first
    assert all(line["losses/entropy"] for line in others)
    accumulator = EventAccumulator(str(whole.train_events), {"tensors": 0}).Reload()
    for tag, first in (("weights/policy/output/kernel", 20), ("replay/td_error", 100)):
        assert accumulator.Tensors(tag)[0].step == first


@pytest.mark.parametrize("backend", ["process", "tf"])
def test_a_killed_run_resumes_as_if_it_had_never_stopped(whole, tmp_path, backend):
    killed = RunDirectory(tmp_path / "20260131T120000-sac")
    killed.prepare(small(env_backend=backend))
    arguments = [sys.executable, "-c", KILLED, killed.config_file, killed.path]
    assert subprocess.run(arguments, capture_output=True).returncode == -signal.SIGKILL
    finish(killed)
    if backend == "tf":  # Rounds differently.
        whole = RunDirectory(tmp_path / "20260131T120001-sac")
        finish(whole, small(env_backend=backend))
    assert_equal_runs(killed, whole)


def test_a_damaged_replay_falls_back_to_the_checkpoint_before(whole, tmp_path):
    run = RunDirectory(shutil.copytree(whole.path, tmp_path / whole.path.name))
    files = sorted((run.checkpoints / "replay").iterdir(), key=lambda path: path.stat().st_mtime)
    files[-1].write_bytes(files[-1].read_bytes()[:-100])
    with pytest.warns(UserWarning, match=r"step-400.npz \(replay/step-\d+.npz: "):
        finish(run)
    assert_equal_runs(run, whole)


def test_a_run_whose_replay_is_lost_resumes_without_it(whole, tmp_path):
    run = RunDirectory(shutil.copytree(whole.path, tmp_path / whole.path.name))
    shutil.rmtree(run.checkpoints / "replay")
    with (
        pytest.warns(UserWarning, match=r"step-400.npz \(replay/step-\d+.npz: missing"),
        pytest.raises(UsageError, match="or resume with --replay-checkpoints=false"),
    ):
        finish(run)
    finish(run, run.load_config(replay_checkpoints=False, steps=500))
    assert (run.checkpoints / "step-500.npz").exists()


def test_without_the_replay_a_resumed_run_fills_it_again(tmp_path, capsys):
    run = RunDirectory(tmp_path / "run")
    finish(run, small(steps=200, replay_checkpoints=False))
    assert not (run.checkpoints / "replay").exists()
    before = arrays_of(run.checkpoints / "step-200.npz")
    weights = [name for name in before if name.startswith("critics")]
    config = run.load_config(steps=240)
    finish(run, config)
    assert "step 200, not exactly: without its replay\n" in capsys.readouterr().err
    after = arrays_of(run.checkpoints / "step-240.npz")
    assert all(np.array_equal(before[name], after[name]) for name in weights)
    finish(run, run.load_config(steps=300))
    after = arrays_of(run.checkpoints / "step-300.npz")
    assert not all(np.array_equal(before[name], after[name]) for name in weights)


def test_a_policy_is_loaded_and_exported_without_the_critics(whole, tmp_path):
    policy = load_policy(whole)
    observ = np.random.default_rng(0).uniform(-1, 1, [50, 3]).astype(np.float32)
    actions = policy(observ)
    assert np.abs(actions).max() <= 2 and np.ptp(actions) > 0
    random = policy(observ, deterministic=False)
    assert np.abs(random).max() <= 2 and not np.array_equal(actions, random)
    export_policy(whole, tmp_path / "out")
    import tensorflow as tf

    exported = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    (result,) = exported(observ=tf.constant(observ)).values()
    np.testing.assert_allclose(result, actions, rtol=1e-5, atol=1e-6)


def test_several_learners_and_a_changed_algorithm_are_refused(whole, tmp_path, capsys):
    with pytest.raises(UsageError, match="sac trains with one learner"):
        main([f"--logdir={tmp_path}", "--config=sac_pendulum", "--learners=2"])
    with pytest.raises(UsageError, match="algorithm"):
        whole.load_config(algorithm="ppo")


def test_a_dry_run_says_the_memory_of_the_replay(tmp_path, capsys):
    main([f"--logdir={tmp_path}", "--config=sac_pendulum", "--dry-run"])
    out = capsys.readouterr().out
    # Three numbers of the observation, the action and the reward of 4 bytes each, and a byte.
    assert f"replay: 20,000 steps, {20_000 * 21 / 1e6:.1f} MB" in out
    assert "critics: 2 with layers 64, 64, and a target network for each" in out
    assert "update: 16 gradient steps of critics and policy" in out


def test_it_learns_in_a_few_steps():
    class Target(gymnasium.Env):
        """Rewards actions near 0.5, in episodes of five steps."""

        observation_space = gymnasium.spaces.Box(-1, 1, (1,))
        action_space = gymnasium.spaces.Box(-1, 1, (1,))

        def reset(self, *, seed=None, options=None):
            self.steps = 0
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.steps += 1
            return np.zeros(1, np.float32), -abs(float(action[0]) - 0.5), False, self.steps == 5, {}

    config = small(
        env=Target, steps=800, learning_rate=0.01, eval_interval=800, batch_size=64, checkpoint_interval=800,
        replay_capacity=1000,
    )  # fmt: skip
    (score,) = train(config)
    assert float(score) > -0.5
