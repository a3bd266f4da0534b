"""Numbers in the infos, on their way from the environments to the log."""

import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agents.command_line import parse_command
from agents.config import Config, load_config
from agents.runs.metrics import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import TrainOptions, train
from agents.tools import BatchEnv, InGraphBatchEnv, MockAlgorithm, make_batch_env, simulate
from agents.tools.errors import EnvironmentRaisedError

cloudpickle.register_pickle_by_value(sys.modules[__name__])

KEYS = ["speed", "lap"]
BACKENDS = ["process", "inline", *AutoresetMode]


class Racer(gymnasium.Env):
    """Its speed is its step, in every info; its lap is in the info of even steps; a reset has a speed of its own."""

    observation_space = spaces.Box(-1, 1e6, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, duration, driver=None):
        self.duration, self.driver = duration, driver

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {"speed": -100.0, "pole": True}

    def step(self, action):
        self.steps += 1
        info = {"speed": np.float32(self.steps), "name": "Ann"}
        if self.steps % 2 == 0:
            info["lap"] = 10 * self.steps
        if self.driver:
            info["speed"] = self.driver
        return np.full(1, self.steps, np.float32), 0.0, self.steps == self.duration, False, info


def make(constructors, backend, info_keys=KEYS):
    if backend == "process":
        return make_batch_env(constructors, processes=2, info_keys=info_keys)
    if backend == "inline":
        return BatchEnv([constructor() for constructor in constructors], blocking=True, info_keys=info_keys)
    return SyncVectorEnv(constructors, autoreset_mode=backend)


def expected(duration, steps):
    """Speeds and laps of an environment, each [T]."""
    count = np.arange(steps) % duration + 1
    return count, np.where(count % 2 == 0, 10 * count, np.nan)


@pytest.mark.parametrize("backend", ["process", "inline"])
def test_a_batch_returns_them_in_every_step_with_masks(backend):
    batch = make([lambda: Racer(3), lambda: Racer(5)], backend)
    batch.reset()
    for step in range(12):
        infos = batch.step(np.zeros(2, int))[-1]
        for row, duration in enumerate([3, 5]):
            speed, lap = (numbers[step] for numbers in expected(duration, 12))
            assert infos["speed"][row] == speed and infos["_speed"][row]
            np.testing.assert_equal(infos["lap"][row], lap)
            assert infos["_lap"][row] == (not np.isnan(lap))
    batch.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_the_graph_they_are_those_of_the_step_that_was_made(backend):
    durations, steps = [3, 5, 1], 12
    envs = InGraphBatchEnv(make([lambda d=d: Racer(d) for d in durations], backend), KEYS)
    envs.reset()
    algorithm = MockAlgorithm(envs)
    extras = tf.function(lambda: simulate(envs, algorithm, steps))().extras
    assert extras.keys() == set(KEYS)
    for row, duration in enumerate(durations):
        speed, lap = expected(duration, steps)
        np.testing.assert_array_equal(extras["speed"][:, row], speed)
        np.testing.assert_array_equal(extras["lap"][:, row], lap)
        np.testing.assert_array_equal(envs.extras["speed"][row], speed[-1])
    envs.close()


def test_by_default_there_are_none():
    batch = make([lambda: Racer(3)], "inline", ())
    batch.reset()
    assert "speed" not in batch.step(np.zeros(1, int))[-1]
    envs = InGraphBatchEnv(batch)
    assert envs.extras == {}
    assert "extras" not in simulate(envs, MockAlgorithm(envs), 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_infos_of_resets_are_not_those_of_steps(backend):
    envs = InGraphBatchEnv(make([lambda: Racer(2), lambda: Racer(3)], backend, ["pole"]), ["pole"])
    envs.reset()
    np.testing.assert_array_equal(envs.extras["pole"], [np.nan, np.nan])
    algorithm = MockAlgorithm(envs)
    assert np.isnan(tf.function(lambda: simulate(envs, algorithm, 6))().extras["pole"]).all()
    envs.close()


def test_other_keys_than_those_of_the_batch_are_refused():
    with pytest.raises(ValueError, match="'lap'.*made with .'speed'"):
        InGraphBatchEnv(make([lambda: Racer(2)], "inline", ["speed"]), ["lap"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_no_number_is_told(backend):
    envs = InGraphBatchEnv(make([lambda: Racer(3, driver="Bea")], backend, ["speed"]), ["speed"])
    envs.reset()
    with pytest.raises((TypeError, EnvironmentRaisedError), match="info_keys: 'speed' is.*Bea"), envs.raising():
        envs.simulate(tf.zeros([1], tf.int64))
    envs.close()


SMALL = {
    "num_envs": 2, "rollout_length": 30, "minibatch_size": 60, "epochs": 1, "layers": (4,), "steps": 240,
    "log_interval": 120, "checkpoint_interval": 240, "eval_interval": 240, "eval_episodes": 1,
}  # fmt: skip


@pytest.fixture
def registered():
    gymnasium.register("Racer-v0", lambda: Racer(4))
    yield
    del gymnasium.registry["Racer-v0"]


@pytest.mark.parametrize("env_backend", ["process", "inline"])
def test_a_run_logs_their_means(registered, tmp_path, env_backend):
    run = RunDirectory(tmp_path)
    list(train(load_config("default", env="Racer-v0", env_backend=env_backend, info_keys=KEYS, **SMALL), run))
    logged = [row for row in read_metrics(run.metrics_file) if "losses/value" in row]
    assert [row["step"] for row in logged] == [120, 240]
    speeds, laps = expected(4, 60)  # 60 steps of each environment between two log points.
    for row in logged:
        assert row["info/speed"] == pytest.approx(np.mean(speeds))
        assert row["info/lap"] == pytest.approx(np.nanmean(laps))


def test_names_that_do_not_occur_are_told_with_those_that_do(registered, tmp_path):
    config = load_config("default", env="Racer-v0", env_backend="inline", info_keys=["sped", "lap"], **SMALL)
    with pytest.warns(
        UserWarning, match="no info had a number 'sped'.*names seen in infos: .*lap, name, .*speed"
    ) as said:
        list(train(config, RunDirectory(tmp_path)))
    assert len([warning for warning in said if "sped" in str(warning.message)]) == 1


@pytest.mark.parametrize("text", ["speed,lap", '["speed", "lap"]', '"speed","lap"'])
def test_on_the_command_line(text):
    _, overrides = parse_command(
        TrainOptions, ["--logdir=logs", f"--info-keys={text}"], program="train", settings=Config
    )
    assert load_config("default", **overrides).info_keys == ("speed", "lap")
