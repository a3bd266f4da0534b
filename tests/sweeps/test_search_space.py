import re

import pytest

from agents.errors import UsageError
from agents.settings.config import Config
from agents.settings.config_file import load_config, yaml_text
from agents.sweeps.search_space import SHARED, Choices, Range, load_space


@pytest.fixture
def load(tmp_path):
    def load(text):
        path = tmp_path / "my.yaml"
        path.write_text(text)
        return load_space(path)

    return load


def test_the_space_of_ppo_varies_known_settings_around_the_defaults():
    space = load_space("ppo")
    assert {"learning_rate", "discount", "minibatch_size", "layers"} <= space.dimensions.keys()
    defaults = load_config("default")
    for name, item in space.dimensions.items():
        value = getattr(defaults, name)
        if isinstance(item, Range):
            # Ends of logarithmic ranges are above 0.
            assert item.low <= value <= item.high or (item.log and value == 0)
        else:
            assert value in item.choices or list(value) in item.choices
    # RL-Zoo's ranges are as wide: 1e-5 to 1 is too much, a factor of 10 too little.
    rates = space.dimensions["learning_rate"]
    assert rates.log and 50 < rates.high / rates.low < 1000


def test_files_have_ranges_and_choices(load):
    space = load(
        "learning_rate: {low: 1e-5, high: 1e-2, log: true}\n"
        "epochs: {low: 1, high: 5}\nlayers: {choices: [[8], [16, 16]]}\n"
    )
    assert space.dimensions == {
        "learning_rate": Range(low=1e-5, high=1e-2, log=True),
        "epochs": Range(low=1, high=5),
        "layers": Choices(choices=([8], [16, 16])),
    }
    assert space.is_integer("epochs") and not space.is_integer("learning_rate")


def test_what_is_saved_is_read_back(load):
    space = load_space("ppo")
    assert load(yaml_text(space.as_data())).as_data() == space.as_data()


def test_settings_of_the_command_line_are_not_varied():
    space = load_space("ppo").without({"learning_rate", "seed"})
    assert space.dimensions.keys() == load_space("ppo").dimensions.keys() - {"learning_rate"}


def test_parameters_become_settings_of_the_right_types(load):
    space = load(
        "layers: {choices: [[8], [16, 16]]}\nactivation: {choices: [tanh]}\nepochs: {low: 1, high: 5}\n"
    )
    settings = space.settings({"layers": "[16, 16]", "activation": '"tanh"', "epochs": 3})
    assert settings == {"layers": [16, 16], "activation": "tanh", "epochs": 3}
    assert load_config("default", **settings).layers == (16, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat: {low: 1, high: 2}", "unknown setting 'learning_rat' in .*; did you mean 'learning_rate'"),
        ("seed: {low: 0, high: 9}", "seed in .*: all trials of a sweep share it\nset it with --seed"),
        ("epochs: 3", r"epochs in .*: expected \{low: .*\} or \{choices: .*\}, got 3"),
        ("epochs: {low: 1, hihg: 3}", r"epochs in .*: expected \{low: .*got \{'low': 1, 'hihg': 3\}"),
        ("epochs: {low: 5, high: 2}", "epochs in .*: expected a low end below the high end, got"),
        ("entropy_coef: {low: 0, high: 1, log: true}", "expected a low end above 0 with log: true"),
        ("epochs: {choices: []}", r"epochs in .*: expected .*got \{'choices': \[\]\}"),
        ("activation: {low: 1, high: 2}", "it takes no numbers; expected .choices"),
        ("learning_rate: {low: 0.1, high: 10}", "learning_rate in .*: expected a number above 0 and at most 1, got 10"),
        ("epochs: {choices: [1, 2.5]}", "epochs in .*: expected an integer from 1 to 10000, got 2.5"),
        ("layers: {choices: [[8], 8]}", r"layers in .*: expected a list such as \[64, 64\].*got 8"),
        ("activation: {choices: [tanh, rely]}", "activation in .*: expected one of tanh, relu, .*got 'rely'"),
    ],
)  # fmt: skip
def test_mistakes_are_named_in_three_lines(load, text, message):
    with pytest.raises(UsageError, match=message) as caught:
        load(text)
    assert len(str(caught.value).splitlines()) <= 3


def test_unknown_spaces_are_answered_with_known_ones():
    with pytest.raises(UsageError, match=re.escape("unknown search space 'pp'")) as caught:
        load_space("pp")
    assert "search spaces: ppo; or give the path" in str(caught.value)


def test_shared_settings_exist():
    assert SHARED <= Config.model_fields.keys()
    assert not SHARED & load_space("ppo").dimensions.keys()
