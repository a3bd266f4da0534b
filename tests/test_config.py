import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pydantic
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import agents
from agents.config import PRESETS, Config, load_config, preset_names, save_config
from agents.tools.errors import UsageError

MUJOCO = [
    "ant",
    "cheetah",
    "hopper",
    "humanoid",
    "humanoid_standup",
    "inverted_double_pendulum",
    "inverted_pendulum",
    "pusher",
    "reacher",
    "swimmer",
    "walker",
]
ATARI = ["breakout", "pong"]
OTHERS = [
    "acrobot",
    "bipedal_walker",
    "cartpole",
    "default",
    "dm_cartpole_swingup",
    "dm_cheetah_run",
    "half_cheetah_bullet",
    "inverted_pendulum_bullet",
    "lunar_lander",
    "minigrid_empty",
    "mountain_car_continuous",
    "pendulum",
    "pendulum_no_velocity",
]
SYSTEMS = ["batch_ppo", "cleanrl_atari", "cleanrl_continuous", "sb3", "skrl"]

AWKWARD = "?:-,[]{}#&*!|>'\"%@`\\ \n\t~=<0a"
TEXTS = (
    st.text(AWKWARD, max_size=5)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.sampled_from(
        [
            "1e-4",
            "yes",
            "null",
            "~",
            "0x1f",
            "0o17",
            "1_000",
            "12:30:45",
            "2001-01-01",
            "<<",
            "=",
            "- a",
            "a: b",
            "#",
            "!!python/x",
            "?x",
        ]
    )
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
CONFIGS = st.builds(
    Config,
    env=TEXTS.filter(bool),
    env_kwargs=st.dictionaries(TEXTS, PLAIN, max_size=4),
    env_backend=st.sampled_from(["process", "inline", "envpool", "tf"]),
    steps=st.integers(1, 10**15),
    learning_rate=st.floats(0, 1, exclude_min=True),
    adam_epsilon=st.floats(0, 1, exclude_min=True),
    discount=st.floats(0, 1),
    initial_log_std=st.floats(-20, 20),
    observ_clip=st.floats(0, 1e9, exclude_min=True),
    normalize_reward=st.booleans(),
    layers=st.lists(st.integers(1, 65_536), max_size=5).map(tuple),
    seed=st.integers(0, 2**31 - 1),
)


def refused(*args, **overrides):
    """The lines of the error that load_config ends with."""
    with pytest.raises(UsageError) as caught:
        load_config(*args, **overrides)
    lines = str(caught.value).splitlines()
    assert 1 <= len(lines) <= 3
    return lines


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.yaml"

    def write(text):
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


def test_presets_are_complete():
    assert preset_names() == sorted(MUJOCO + ATARI + OTHERS + SYSTEMS)


@pytest.mark.parametrize("name", MUJOCO + ATARI + OTHERS + SYSTEMS)
def test_preset_loads_and_states_environment_and_steps(name):
    config = load_config(name)
    text = (PRESETS / f"{name}.yaml").read_text()
    assert text.startswith("# ")
    assert "\nenv: " in text and "\nsteps: " in text
    assert {"env", "steps"} <= config.model_fields_set
    for setting in config.model_fields_set - {"env", "steps"}:
        assert getattr(config, setting) != Config.model_fields[setting].default, f"{setting} repeats the default"


@pytest.mark.parametrize("family", [MUJOCO, ATARI])
def test_presets_of_a_family_share_one_set_of_settings(family):
    different = [load_config(name).model_dump(exclude={"env"}) for name in family]
    assert all(settings == different[0] for settings in different)


def test_every_setting_is_described_and_bounded():
    for name, field in Config.model_fields.items():
        assert field.description and field.description.endswith("."), name
        bounded = field.metadata or field.annotation is bool or "Literal" in str(field.annotation)
        assert bounded, f"{name} has no bound"
        assert not field.is_required()
        Config.model_validate({name: field.default})


def test_defaults():
    config = Config()
    assert (config.env, config.steps, config.layers, config.learning_rate) == ("Pendulum-v1", 100_000, (64, 64), 3e-4)


def test_is_public():
    assert agents.load_config is load_config


def test_is_immutable():
    with pytest.raises(pydantic.ValidationError):
        load_config().seed = 3


@pytest.mark.parametrize(
    "overrides, expected",
    [
        ({"learning_rate": "1e-3"}, {"learning_rate": 1e-3}),
        ({"steps": "1e6"}, {"steps": 1_000_000}),
        ({"steps": 1e6}, {"steps": 1_000_000}),
        ({"seed": np.int64(7), "discount": np.float64(0.5)}, {"seed": 7, "discount": 0.5}),
        ({"normalize_reward": "false"}, {"normalize_reward": False}),
        ({"layers": [32, 16]}, {"layers": (32, 16)}),
        ({"layers": []}, {"layers": ()}),
        ({"env_kwargs": {"range": (0.2, np.float64(1))}}, {"env_kwargs": {"range": [0.2, 1.0]}}),
    ],
)
def test_overrides_are_read(overrides, expected):
    config = load_config("cartpole", **overrides)
    for name, value in expected.items():
        assert getattr(config, name) == value
        assert type(getattr(config, name)) is type(value)


def test_settings_from_a_file(file):
    config = load_config(file("env: Acrobot-v1\nlearning_rate: 1e-4\nlayers: [8]\n"))
    assert (config.env, config.learning_rate, config.layers) == ("Acrobot-v1", 1e-4, (8,))
    assert load_config(str(file("seed: 3")), seed=4).seed == 4


def test_unknown_preset():
    lines = refused("pendulm")
    assert lines[0] == "unknown preset 'pendulm'; did you mean 'pendulum'?"
    assert lines[1].startswith("presets: acrobot, ant, ")
    assert "did you mean 'pendulum'" in refused("Pendulum")[0]


def test_unknown_setting_from_python():
    assert refused(learing_rate=1) == ["unknown setting 'learing_rate'; did you mean 'learning_rate'?"]
    assert refused(xyzzy=1) == ["unknown setting 'xyzzy'"]


def test_unknown_setting_in_a_file_names_the_file(file):
    path = file("learing_rate: 1e-3")
    assert refused(path) == [f"unknown setting 'learing_rate' in {path}; did you mean 'learning_rate'?"]
    assert refused(file("1: 2")) == [f"unknown setting '1' in {path}"]


@pytest.mark.parametrize(
    "overrides, message",
    [
        ({"learning_rate": "fast"}, "learning_rate: expected a number above 0 and at most 1, got 'fast'"),
        ({"learning_rate": 2.0}, "learning_rate: expected a number above 0 and at most 1, got 2.0"),
        ({"learning_rate": float("nan")}, "learning_rate: expected a number above 0 and at most 1, got nan"),
        ({"num_envs": 0}, "num_envs: expected an integer from 1 to 65536, got 0"),
        ({"num_envs": 1.5}, "num_envs: expected an integer from 1 to 65536, got 1.5"),
        ({"epochs": True}, "epochs: expected an integer from 1 to 10000, got True"),
        ({"seed": None}, "seed: expected an integer from 0 to 2147483647, got None"),
        ({"normalize_reward": "perhaps"}, "normalize_reward: expected true or false, got 'perhaps'"),
        ({"activation": "tan"}, "activation: expected one of tanh, relu, elu, silu, gelu, got 'tan'"),
        ({"env": 3}, "env: expected a text, got 3"),
        ({"env": ""}, "env: expected a text, got ''"),
        (
            {"layers": (64, 0)},
            "layers: expected a list, such as [64, 64], and each item an integer from 1 to 65536, got (64, 0)",
        ),
        (
            {"layers": "64"},
            "layers: expected a list, such as [64, 64], and each item an integer from 1 to 65536, got '64'",
        ),
        ({"env_kwargs": 3}, 'env_kwargs: expected plain data by name, such as {"g": 9.81}, got 3'),
    ],
)
def test_wrong_values(overrides, message):
    assert refused(**overrides) == [message]


@pytest.mark.parametrize(
    "value", [np.zeros((30, 30)), {"a": object()}, {"a": float("nan")}, {1: 2}, {"a": np.int64(3)}]
)
def test_constructor_arguments_that_could_not_be_saved_are_refused(value):
    [line] = refused(env_kwargs=value)
    assert line.startswith('env_kwargs: expected plain data by name, such as {"g": 9.81}, got ')
    assert len(line) < 140


def test_bottomless_constructor_arguments(file):
    path = file("env_kwargs: &a {b: *a}")
    assert refused(path) == [f"env_kwargs in {path}: nested too deeply, or contained in itself"]
    assert refused(file(f"env_kwargs: {{a: {'[' * 3000}{']' * 3000}}}")) == [f"can't read {path}: nested too deeply"]


def test_wrong_value_in_a_file_names_the_file(file):
    path = file("seed: some")
    assert refused(path) == [f"seed in {path}: expected an integer from 0 to 2147483647, got 'some'"]
    assert refused(path, seed=-1) == ["seed: expected an integer from 0 to 2147483647, got -1"]


def test_many_mistakes_take_three_lines():
    lines = refused(seed=-1, epochs=0, steps=0, discount=2, layers=3)
    assert len(lines) == 3
    assert lines[2] == "and 3 more"


@pytest.mark.parametrize("size, nearest", [(60, 64), (100, 128), (4096, 2048), (3, 2), (2000, 2048)])
def test_minibatches_that_leave_a_rest(size, nearest):
    first, second = refused("default", minibatch_size=size)
    assert first == (
        f"minibatch_size: {size} does not divide the 2048 steps of a rollout (8 num_envs x 256 rollout_length)"
    )
    assert second == f"the nearest size that does is {nearest}"
    assert load_config("default", minibatch_size=nearest).minibatch_size == nearest


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "expected lines such as 'steps: 100000', got nothing"),
        ("- a", "expected lines such as 'steps: 100000', got list"),
        ("steps: 1\nseed: 2\nsteps: 3", 'line 3: found duplicate key "steps"'),
        ("steps: [1", "line 1: "),
        ("steps: 1\n seed: 2", "line 2: "),
        ("env: !!python/object/apply:os.system ['true']", "line 1: could not determine a constructor"),
        ("env: a\x07", "special characters are not allowed"),
    ],
)
def test_files_that_are_not_settings(file, text, problem):
    path = file(text)
    [line] = refused(path)
    assert line.startswith(f"can't read {path}")
    assert problem in line


def test_files_that_cannot_be_read(tmp_path):
    assert refused(tmp_path / "none.yaml") == [f"can't read {tmp_path}/none.yaml: No such file or directory"]
    assert refused(tmp_path) == [f"can't read {tmp_path}: Is a directory"]
    (tmp_path / "image.yaml").write_bytes(b"\x89PNG\xff")
    assert "can't decode" in refused(tmp_path / "image.yaml")[0]


@settings(deadline=None, max_examples=100, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(config=CONFIGS)
def test_saving_and_loading_gives_the_same(config, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "saved.yaml"
    save_config(config, path)
    loaded = load_config(path)
    assert loaded == config
    assert repr(loaded) == repr(config), "types and signs of zeros"


def test_saved_file_is_for_people(tmp_path):
    save_config(load_config("pendulum", env_kwargs={"g": 9.81, "a": [1, {"b": None}]}), tmp_path / "config.yaml")
    lines = (tmp_path / "config.yaml").read_text().splitlines()
    keys = [line.partition(":")[0] for line in lines if not line.startswith((" ", "-"))]
    assert keys == list(Config.model_fields)
    assert lines[lines.index("layers:") :][1:3] == ["- 64", "- 64"]
    assert os.listdir(tmp_path) == ["config.yaml"]


def test_import_is_light_and_quick():
    code = textwrap.dedent("""
        import sys
        import agents.config, agents.command_line, agents.families
        assert "gymnasium" not in sys.modules
        agents.families.check_environment(agents.load_config("pendulum"))
        assert "tensorflow" not in sys.modules and "keras" not in sys.modules
    """)
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert time.monotonic() - start < 5


def test_a_learning_rate_for_the_critic_alone_needs_layers_of_its_own():
    (line,) = refused("pendulum", critic_learning_rate=1e-3, shared_torso=True)
    assert line.startswith("critic_learning_rate:")
    assert "shared_torso" in line


def test_sequences_fit_rollouts_and_minibatches():
    assert load_config("default", recurrent="gru").sequence_length == 0
    assert load_config("default", recurrent="gru", sequence_length=32).sequence_length == 32
    lines = refused("default", recurrent="gru", sequence_length=48)
    assert "sequences of 48 steps" in lines[0]
    assert lines[1] == "the longest that does is 64, which 0 stands for"
