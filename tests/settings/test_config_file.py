import os
import re

import gymnasium
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agents.settings.config import Config
from agents.settings.config_file import (
    PRESETS,
    load_config,
    preset_names,
    read_mapping,
    save_config,
)

# Presets of a family have the same settings.
MUJOCO = [
    "mujoco", "ant", "cheetah", "hopper", "humanoid", "humanoid_standup", "inverted_double_pendulum",
    "inverted_pendulum", "pusher", "reacher", "swimmer", "walker",
]  # fmt: skip
FAMILIES = [MUJOCO, ["ant_long", "mujoco_long"], ["breakout", "pong"]]

AWKWARD = "?:-,[]{}#&*!|>'\"%@`\\ \n\t~=<0a"
TEXTS = (
    st.text(AWKWARD, max_size=5)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.sampled_from(
        "1e-4|yes|null|0x1f|0o17|1_000|12:30:45|2001-01-01|<<|- a|a: b|#|!!x".split("|")
    )
)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
CONFIGS = st.builds(
    Config,
    env=TEXTS.filter(bool),
    env_kwargs=st.dictionaries(TEXTS, PLAIN, max_size=4),
    env_backend=st.sampled_from(["process", "hybrid", "inline", "envpool", "tf"]),
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


@pytest.mark.parametrize("name", preset_names())
def test_preset_loads_and_states_environment_and_steps(name):
    config = load_config(name)
    text = (PRESETS / f"{name}.yaml").read_text()
    assert text.startswith("# ")
    assert "\nenv: " in text
    assert "\nsteps: " in text or "\nextends: " in text
    assert {"env", "steps"} <= config.model_fields_set
    assert config.steps >= 10 * config.eval_interval
    extended = re.search("^extends: (.*)", text, re.MULTILINE)
    others = load_config(extended[1]) if extended else Config()
    own = set(read_mapping(PRESETS / f"{name}.yaml")) - {"env", "steps", "extends"}
    for setting in own:
        assert getattr(config, setting) != getattr(others, setting), (
            f"{setting} repeats the default"
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_presets_of_a_family_share_one_set_of_settings(family):
    different = [load_config(name).model_dump(exclude={"env"}) for name in family]
    assert all(settings == different[0] for settings in different)


def test_settings_from_a_file(write_file):
    config = load_config(write_file("env: Acrobot-v1\nlearning_rate: 1e-4\nlayers: [8]\n"))
    assert (config.env, config.learning_rate, config.layers) == ("Acrobot-v1", 1e-4, (8,))
    assert load_config(str(write_file("seed: 3")), seed=4).seed == 4


def test_an_environment_is_no_preset(refused):
    line = refused(gymnasium.make("CartPole-v1"))[0]
    assert re.match(
        "load_config expected the name of a preset or a path, got .*CartPole.*env=", line
    )


def test_unknown_preset(refused):
    lines = refused("pendulm")
    assert lines[0] == "unknown preset 'pendulm'; did you mean 'pendulum'?"
    assert lines[1].startswith("presets: acrobot, ant, ")
    assert "did you mean 'pendulum'" in refused("Pendulum")[0]


SEED = "expected an integer from 0 to 2147483647, got"
ALIAS = "can't read FILE: it has the alias '*a'; write the value there instead"
EXTENDS = "extends in FILE: expected a preset, got"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learing_rate: 1e-3", "unknown setting 'learing_rate' in FILE; did you mean 'learning_rate'?"),
        ("1: 2", "unknown setting '1' in FILE"),
        ("seed: some", f"seed in FILE: {SEED} 'some'"),
        (f"env_kwargs: {{a: {'[' * 3000}{']' * 3000}}}", "can't read FILE: nested too deeply"),
        ("seed: 1\nenv_kwargs: {a: {g:9}}",
         "can't read FILE line 2: 'g:9' has no value; write 'g: 9', with a space after the colon"),
        # Files that may stand for gigabytes.
        ("env_kwargs: &a {b: *a}", ALIAS),
        ("a: &a [1]\nb: [*a, *a]", ALIAS),
        ("seed: 1" + " " * 100_000, "can't read FILE: it is larger than 100,000 bytes"),
        # No settings.
        ("", "can't read FILE: expected lines such as 'steps: 100000', got nothing"),
        ("- a", "can't read FILE: expected lines such as 'steps: 100000', got list"),
        ("steps: 1\nseed: 2\nsteps: 3", "can't read FILE line 3: found duplicate key \"steps\""),
        ("steps: [1", "can't read FILE line 1: "),
        ("steps: 1\n seed: 2", "can't read FILE line 2: "),
        ("env: !!python/object/apply:os.system ['true']",
         "can't read FILE line 1: could not determine a constructor"),
        ("env: a\x07", "can't read FILE: unacceptable character"),
        # Only presets can be extended.
        ("extends: mujocco", f"{EXTENDS} 'mujocco'; did you mean 'mujoco'?"),
        ("extends: configs/mujoco.yaml", f"{EXTENDS} 'configs/mujoco.yaml'"),
        ("extends: [mujoco, ant]", f"{EXTENDS} ['mujoco', 'ant']"),
    ],
    ids=lambda value: value[:20],
)  # fmt: skip
def test_mistakes_in_a_file_are_named(text, message, refused, write_file):
    path = write_file(text)
    [line] = refused(path)
    assert line.startswith(message.replace("FILE", str(path))), line


def test_settings_of_the_call_are_not_of_the_file(refused, write_file):
    path = write_file("seed: some")
    assert refused(path, seed=-1) == [f"seed: {SEED} -1"]
    assert load_config(write_file("env_kwargs:\n  g:\n")).env_kwargs == {"g": None}
    assert refused(extends="mujoco") == ["unknown setting 'extends'"]
    kwargs = {}
    kwargs["b"] = kwargs
    for name in ("env_kwargs", "reset_options", "custom_settings"):
        [line] = refused("pendulum", **{name: kwargs})
        assert line == f"{name}: nested too deeply, or contained in itself"


@pytest.mark.parametrize("nest", [lambda value: {"a": value}, lambda value: [value]])
def test_nested_settings_are_refused_unless_they_can_be_read_back(nest, tmp_path, refused):
    deepest = 1
    for _ in range(98):  # In env_kwargs, in the file.
        deepest = nest(deepest)
    config = load_config("pendulum", env_kwargs={"a": deepest})
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config
    [line] = refused("pendulum", env_kwargs={"a": nest(deepest)})
    assert line == "env_kwargs: nested too deeply, or contained in itself"


def test_files_that_cannot_be_read(tmp_path, refused):
    missing = tmp_path / "none.yaml"
    assert refused(missing) == [f"can't read {missing}: No such file or directory"]
    assert refused(tmp_path / "latest" / "config.yaml")[0].endswith(
        "name the run's folder, latest is none"
    )
    assert refused(tmp_path) == [f"can't read {tmp_path}: Is a directory"]
    (tmp_path / "image.yaml").write_bytes(b"\x89PNG\xff")
    assert "can't decode" in refused(tmp_path / "image.yaml")[0]


@settings(deadline=None, max_examples=50, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(config=CONFIGS)
def test_saving_and_loading_preserves_all_settings(config, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "saved.yaml"
    save_config(config, path)
    loaded = load_config(path)
    assert loaded == config
    assert repr(loaded) == repr(config), "types and signs of zeros"


def test_saved_file_is_readable(tmp_path):
    save_config(
        load_config("pendulum", env_kwargs={"g": 9.81, "a": [1, {"b": None}]}),
        tmp_path / "config.yaml",
    )
    lines = (tmp_path / "config.yaml").read_text().splitlines()
    keys = [line.partition(":")[0] for line in lines if not line.startswith((" ", "-", "#"))]
    assert keys == list(load_config("pendulum").settings())
    assert lines[lines.index("layers:") :][1:3] == ["- 64", "- 64"]
    assert os.listdir(tmp_path) == ["config.yaml"]


# The last two extend presets themselves.
@pytest.mark.parametrize("preset", ["pendulum_no_velocity", "cheetah", "ant_long"])
def test_a_file_inherits_the_settings_of_the_preset_that_it_extends(preset, write_file):
    config = load_config(write_file(f"extends: {preset}\nseed: 3\n"))
    base = load_config(preset)
    assert config == base.model_copy(update={"seed": 3})
    assert config.model_fields_set == base.model_fields_set | {"seed"}


def test_settings_of_a_file_override_those_of_the_preset_that_it_extends(write_file):
    path = write_file("""
        extends: mujoco
        discount: 0.5
        layers: [8]
    """)
    config = load_config(path, layers=(16,))
    base = load_config("mujoco")
    assert base.minibatch_size == 128 and base.multiply_kl_stop
    assert config == base.model_copy(update={"discount": 0.5, "layers": (16,)})


def test_a_saved_file_extends_nothing(tmp_path):
    save_config(load_config("ant"), tmp_path / "config.yaml")
    assert "extends" not in (tmp_path / "config.yaml").read_text()
    assert load_config(tmp_path / "config.yaml") == load_config("ant")
