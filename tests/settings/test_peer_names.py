import re

from agents.scripts.main import COMMANDS
from agents.scripts.train import TrainOptions
from agents.settings import peer_names
from agents.settings.config import Config
from agents.settings.peer_names import PEER_NAMES, hint

KNOWN = {**TrainOptions.model_fields, **Config.model_fields}


def test_names_of_other_libraries_are_answered_with_settings():
    for name, meant in PEER_NAMES.items():
        assert name not in KNOWN and meant in KNOWN
        assert hint(name, KNOWN, str) == f"; did you mean {meant}?"
    assert hint("total-timesteps", KNOWN, "--{}".format) == "; did you mean --steps?"


def test_advice_names_settings_and_commands_that_exist():
    for name, advice in peer_names._ADVICE.items():
        assert name not in KNOWN and hint(name, KNOWN, str) == f"; {advice}"
        for named in re.findall(r"see agents (\w+)", advice):
            assert named in COMMANDS
        for names in re.findall(r"see (?!agents )([\w, ]+)", advice):
            assert set(re.split(", | and ", names)) <= set(KNOWN)


def test_a_name_that_is_not_among_the_known_is_no_answer():
    """Scripts have other options than `train`."""
    assert hint("total_timesteps", ["logdir"], str) == ""
    assert hint("lodgir", ["logdir"], str) == "; did you mean logdir?"
