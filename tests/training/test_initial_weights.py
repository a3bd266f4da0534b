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
from agents.scripts.train import main
from agents.settings.config import Config
from agents.settings.resumption import network_settings

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
        return OBSERV[self._steps % 4], float(-(action.item() ** 2)), False, self._steps == 5, {}


class Wider(Recorder):
    """Has another action."""

    action_space = spaces.Box(-2, 2, (2,), np.float32)


class Hidden(gymnasium.ObservationWrapper):
    """Adds an observation that only the value function gets."""

    def __init__(self):
        super().__init__(Recorder())
        box = self.env.observation_space
        self.observation_space = spaces.Dict(state=box, hidden=box)

    def observation(self, observation):
        return {"state": observation, "hidden": 2 * observation / 3}


SETTINGS = {
    "env": f"{__name__}:Recorder",
    "env_backend": "inline",
    "num_envs": 2,
    "steps": 64,
    "rollout_length": 16,
    "eval_episodes": 1,
    "eval_interval": 32,
    "checkpoint_interval": 32,
    "layers": [8],
    "learning_rate": 1e-12,
}
PPO = {"minibatch_size": 32, "normalize_value": True, **SETTINGS}
MEMORY = {
    **PPO,
    "env": f"{__name__}:Hidden",
    "critic_keys": ["hidden"],
    "recurrent": "gru",
    "recurrent_units": 8,
}
SAC = {
    "algorithm": "sac",
    "policy": "squashed_gaussian",
    "learning_starts": 16,
    "target_rate": 1e-9,
    "replay_capacity": 256,
    "batch_size": 8,
    **SETTINGS,
}
# The normalizers of each, and its groups of variables that another run starts from.
NORMALIZERS = {"normalize_observ", "normalize_reward", "normalize_value"}
LEARNED = ("network", "critics", "targets", "entropy")


def train(run, stop_after=None, **settings):
    """Trains a run, or up to an evaluation."""
    for score in agents.train(agents.load_config("default", **settings), run=run):
        if score.step == stop_after:
            break
    return run


def arrays(run, step):
    with np.load(run / "checkpoints" / f"step-{step}.npz") as values:
        return {name.replace("%2F", "/"): values[name] for name in values if name[0] != "@"}


def assert_equal(one, other):
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs") / "source", **PPO | {"learning_rate": 1e-2})


@pytest.mark.parametrize(
    ("settings", "normalizers"),
    [
        (PPO, NORMALIZERS),
        (MEMORY, {*NORMALIZERS, "normalize_critic_observ"}),
        (SAC, {"normalize_observ"}),
    ],
    ids=["ppo", "memory", "sac"],
)
def test_a_new_run_begins_with_all_that_another_has_learned(settings, normalizers, tmp_path):
    source = train(tmp_path / "source", **settings | {"learning_rate": 1e-2})
    others = {"seed": 7, "num_envs": 4, "rollout_length": 8, "steps": 32, "average_decay": 0.5}
    new = train(tmp_path / "new", initial_weights=source, **settings | others)
    before, after = arrays(source, 64), arrays(new, 32)
    learned = [name for name in before if name.startswith(LEARNED)]
    assert len(learned) >= 8
    for name in learned:
        np.testing.assert_allclose(after[name], before[name], atol=1e-6, err_msg=name)
        if name.startswith("network"):
            average = after[f"averaged/{name}"]
            np.testing.assert_allclose(average, before[name], atol=1e-6, err_msg=name)
    counts = {name for name in before if name.endswith("/count")}
    assert counts == {f"{name}/count" for name in normalizers}
    for name in counts:
        assert after[name] == before[name] + 32
    generator = "algorithm/generator"
    assert not np.array_equal(after[generator], before[generator])


def test_sac_acts_with_them_before_learning_starts(tmp_path):
    settings = SAC | {"initial_log_std": -19.0, "normalize_observ": False}
    source = train(tmp_path / "source", **settings | {"steps": 32, "learning_starts": 31})
    ACTIONS.clear()
    del settings["initial_log_std"]
    train(tmp_path / "new", initial_weights=source, **settings | {"seed": 1, "steps": 32})
    acted = agents.load_policy(source)(OBSERV)[:, 0]
    assert all(np.abs(acted - action).min() < 1e-3 for action in ACTIONS[:32])


@pytest.mark.parametrize(
    "settings", [PPO | {"learning_rate_schedule": "constant"}, SAC], ids=["ppo", "sac"]
)
def test_a_run_does_not_depend_on_the_other_one_any_more(settings, tmp_path):
    """The other run is deleted: a run that resumes or starts over is the same."""
    settings = settings | {"learning_rate": 1e-2}
    source = train(tmp_path / "logs" / "source", **settings)
    settings["initial_weights"] = tmp_path / "logs" / "latest"
    whole = train(tmp_path / "whole", **settings)
    stopped = train(tmp_path / "stopped", stop_after=32, **settings)
    over = tmp_path / "over"
    shutil.copytree(whole, over)
    (over / "metrics.jsonl").unlink()
    shutil.rmtree(over / "train")
    for file in (over / "checkpoints").rglob("step-*.npz"):
        if file.parent.name != "initial":
            file.unlink()
    shutil.rmtree(source)
    assert_equal(arrays(train(stopped, **settings), 64), arrays(whole, 64))
    assert_equal(arrays(train(over, **settings), 64), arrays(whole, 64))


def test_the_newest_run_is_not_the_new_one(source, tmp_path):
    shutil.copytree(source, tmp_path / "a")
    new = train(tmp_path / "b", initial_weights=tmp_path / "latest", **PPO | {"steps": 32})
    [copy] = RunDirectory(new).initial.iterdir()
    assert copy.read_bytes() == (source / "checkpoints" / copy.name).read_bytes()


def test_the_best_checkpoint_of_a_run(source, tmp_path):
    shutil.copytree(source, tmp_path / "a")
    [best] = (source / "checkpoints" / "best").iterdir()
    weights = tmp_path / "latest" / "checkpoints" / "best"
    new = train(tmp_path / "b", initial_weights=weights, **PPO | {"steps": 32})
    [copy] = RunDirectory(new).initial.iterdir()
    assert copy.name == best.name and copy.read_bytes() == best.read_bytes()


def test_a_film_begins_with_them(source, tmp_path):
    new = RunDirectory(train(tmp_path / "new", initial_weights=source, **PPO | {"steps": 32}))
    [(first, checkpoint), *others] = film_scenes(new)
    assert (first, checkpoint) == (0, new.initial / "step-64")
    assert [step for step, _ in others] == [32]
    checkpoint.with_suffix(".npz").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="no scene before training: .* is damaged"):
        assert [step for step, _ in film_scenes(new)] == [32]


@pytest.mark.parametrize(
    ("weights", "settings", "message"),
    [
        ("missing", {}, "initial_weights: .*missing is not a folder"),
        ("", {}, "is not a run"),
        ("checkpoints/best", {}, "is not a run"),
        (
            "source/checkpoints/step-1.npz",
            {},
            "there is no checkpoint .*step-1.npz; expected a run",
        ),
        ("source/config.npz", {}, "there is no checkpoint .*config.npz"),
        ("a" * 3000, {}, "initial_weights: .*too long"),
        ("damaged", {}, "initial_weights: .*damaged"),
        ("damaged/checkpoints/step-64.npz", {}, "initial_weights: its checksum is"),
        ("source", {"layers": [9]}, r"has layers \[8\], got \[9\]"),
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
    settings = settings | {"initial_weights": str(tmp_path / weights)}
    with (
        warned if weights == "damaged" else contextlib.nullcontext(),
        pytest.raises(UsageError, match=message),
    ):
        train(tmp_path / "new", **settings)
    assert not (tmp_path / "new").exists()


def test_a_dry_run_checks_them(source):
    with pytest.raises(UsageError, match="initial_weights: the run of .* has layers"):
        main(["--config=cartpole", f"--initial-weights={source}", "--layers=9", "--dry-run"])


def test_a_resumed_run_keeps_its_weights(source, tmp_path):
    new = train(tmp_path / "new", **PPO | {"steps": 32})
    with pytest.raises(UsageError, match="initial_weights: the run has '', got"):
        train(new, initial_weights=source, **PPO)


def test_every_setting_of_networks_must_be_equal_or_may_differ():
    """A new setting must be added to one of both."""
    names = list(Config.model_fields)
    sections = names[names.index("network") : names.index("steps")]
    free = {
        "precision",
        "initial_log_std",
        "divide_initial_std",
        "noise_correlation",
        "sequence_length",
        "observ_clip",
        "reward_clip",
    }
    equal = network_settings(agents.load_config("default"))
    assert set(sections) <= equal | free and not equal & free
