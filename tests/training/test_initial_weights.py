"""Runs that start from the weights of another run."""

import contextlib
import shutil

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import agents
from agents.deployment.recording import film_scenes
from agents.errors import UsageError
from agents.runs.run_directory import RunDirectory

OBSERV = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
ACTIONS = []


class Recorder(gymnasium.Env):
    """Episodes of five steps; records the actions in this process."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return OBSERV[0], {}

    def step(self, action):
        ACTIONS.append(action.item())
        self._steps += 1
        return OBSERV[0], float(-(action.item() ** 2)), False, self._steps == 5, {}


class Wider(Recorder):
    """Has another action."""

    action_space = spaces.Box(-2, 2, (2,), np.float32)

    def step(self, action):
        return super().step(action[:1])


SETTINGS = {
    "env": f"{__name__}:Recorder",
    "env_backend": "inline",
    "num_envs": 2,
    "steps": 64,
    "rollout_length": 16,
    "eval_episodes": 1,
    "eval_interval": 10**6,
    "checkpoint_interval": 32,
    "layers": [8],
}
PPO = {"minibatch_size": 32, "learning_rate": 1e-12, **SETTINGS}
SAC = {
    "algorithm": "sac",
    "policy": "squashed_gaussian",
    "learning_rate": 1e-12,
    "learning_starts": 16,
    "target_rate": 1e-9,
    "replay_capacity": 256,
    "batch_size": 8,
    **SETTINGS,
}


def train(run, **settings):
    for _ in agents.train(agents.load_config("default", **settings), run=run):
        pass
    return run


def arrays(run, step):
    with np.load(run / "checkpoints" / f"step-{step}.npz") as values:
        return dict(values)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs") / "source", **PPO | {"learning_rate": 1e-2})


@pytest.mark.parametrize("settings", [PPO, SAC], ids=["ppo", "sac"])
def test_a_new_run_begins_with_all_that_another_has_learned(settings, tmp_path):
    settings = settings | {"average_decay": 0.5}
    source = train(tmp_path / "source", **settings | {"learning_rate": 1e-2})
    others = {"seed": 7, "num_envs": 4, "rollout_length": 8, "steps": 32}
    new = train(tmp_path / "new", initial_weights=str(source), **settings | others)
    before, after = arrays(source, 64), arrays(new, 32)
    learned = [name for name in before if name.startswith(("network", "critics", "targets"))]
    assert len(learned) > 5
    for name in learned:
        np.testing.assert_allclose(after[name], before[name], atol=1e-6, err_msg=name)
    for name in ("normalize_observ%2Fcount", "normalize_reward%2Fcount"):
        assert name not in before or after[name] == before[name] + 32
    assert not np.array_equal(after["algorithm%2Fgenerator"], before["algorithm%2Fgenerator"])
    averaged = agents.load_policy(new, checkpoint="averaged")
    np.testing.assert_allclose(averaged(OBSERV), agents.load_policy(new)(OBSERV), atol=1e-5)


def test_sac_acts_with_them_before_learning_starts(tmp_path):
    settings = SAC | {"initial_log_std": -19.0, "normalize_observ": False}
    source = train(tmp_path / "source", **settings | {"steps": 32, "learning_starts": 31})
    ACTIONS.clear()
    train(tmp_path / "new", initial_weights=str(source), **settings | {"seed": 1, "steps": 32})
    expected = agents.load_policy(source)(OBSERV[0]).item()
    np.testing.assert_allclose(ACTIONS[:32], expected, atol=1e-3)


def test_a_run_keeps_the_checkpoint_that_it_started_from(source, tmp_path):
    """The other run goes on, and is deleted: a run that starts over or resumes is the same."""
    copy = tmp_path / "source"
    shutil.copytree(source, copy)
    new = train(tmp_path / "new", initial_weights=copy, **PPO | {"steps": 32})
    pinned = agents.load_config(new / "config.yaml").initial_weights
    assert pinned == str(copy / "checkpoints" / "step-64.npz")
    train(copy, **PPO | {"learning_rate": 1e-2, "steps": 96})
    over, whole = (
        train(tmp_path / "over", initial_weights=pinned, **PPO | {"steps": 32}),
        arrays(new, 32),
    )
    assert all(
        np.array_equal(whole[name], value)
        for name, value in arrays(over, 32).items()
        if name[0] != "@"
    )
    shutil.rmtree(copy)
    train(new, initial_weights=pinned, **PPO)
    assert (new / "checkpoints" / "step-64.npz").exists()


def test_a_film_begins_with_them(source, tmp_path):
    run = RunDirectory(tmp_path / "new")
    file = source / "checkpoints" / "step-64.npz"
    assert list(film_scenes(run, str(file))) == [(0, file.with_suffix(""))]
    with pytest.warns(UserWarning, match="no scene before training"):
        assert list(film_scenes(run, str(tmp_path / "step-64.npz"))) == []


@pytest.mark.parametrize(
    ("weights", "settings", "message"),
    [
        ("missing", {}, "initial_weights: .*missing is not a folder"),
        ("", {}, "is not a run"),
        ("source/checkpoints/step-1.npz", {}, "step-1 is missing"),
        ("source/config.npz", {}, "config is missing"),
        ("damaged", {}, "initial_weights: .*damaged"),
        ("source", {"layers": [9]}, r"has layers \[8\], got \[9\]"),
        ("source", {"layers": [8, 8]}, r"has layers \[8\], got \[8, 8\]"),
        ("source", {"normalize_observ": False}, "has normalize_observ True, got False"),
        ("source", {"activation": "relu"}, "has activation 'tanh', got 'relu'"),
        ("source", SAC, "has algorithm 'ppo', got 'sac'"),
        ("source", {"env": f"{__name__}:Wider"}, "does not fit the configuration"),
    ],
)
def test_other_weights_are_refused_before_anything_is_trained(
    source, weights, settings, message, tmp_path
):
    shutil.copytree(source, tmp_path / "source")
    shutil.copytree(source, tmp_path / "damaged")
    for file in (tmp_path / "damaged").glob("checkpoints/**/*.npz"):
        file.write_bytes(file.read_bytes()[:-100])
    settings = settings if settings is SAC else PPO | settings
    warned = pytest.warns(UserWarning, match="no checkpoint .* is intact")
    with (
        warned if weights == "damaged" else contextlib.nullcontext(),
        pytest.raises(UsageError, match=message),
    ):
        train(tmp_path / "new", initial_weights=str(tmp_path / weights), **settings)
    assert not (tmp_path / "new").exists()


def test_a_resumed_run_keeps_its_weights(source, tmp_path):
    new = train(tmp_path / "new", **PPO | {"steps": 32})
    with pytest.raises(UsageError, match="initial_weights: the run has '', got"):
        train(new, initial_weights=str(source), **PPO)
