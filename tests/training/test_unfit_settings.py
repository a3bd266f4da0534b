import re

import numpy as np
import pytest
from gymnasium import spaces

from agents.settings.config_file import load_config
from agents.training.unfit_settings import warn_of_unfit_settings

VECTOR = spaces.Box(-1, 1, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (64, 48, 3), np.uint8)
GRID = spaces.Box(0, 255, (7, 7, 3), np.uint8)
CHOICE = spaces.Discrete(3)
SAC = {"algorithm": "sac", "policy": "squashed_gaussian", "num_envs": 8}
FORCE = spaces.Box(-np.array([1, np.inf]), np.array([1, np.inf]), (2,), np.float64)


@pytest.mark.parametrize(
    ("settings", "observ", "action", "messages"),
    [
        ({}, VECTOR, CHOICE, []),
        ({"policy": "beta"}, VECTOR, VECTOR, []),
        ({"initial_log_std": -1}, VECTOR, CHOICE, ["initial_log_std: no effect"]),
        ({"initial_log_std": -1}, VECTOR, spaces.Tuple([CHOICE, VECTOR]), []),
        ({"state_dependent_std": True}, VECTOR, spaces.MultiBinary(2), ["state_dependent_std: no"]),
        ({"scale_actions": "never"}, VECTOR, CHOICE, []),
        ({"scale_actions": "always"}, VECTOR, VECTOR, []),
        ({"scale_actions": "always"}, VECTOR, FORCE, ["finite bounds, which some dimensions"]),
        ({}, VECTOR, FORCE, []),
        ({}, IMAGE, CHOICE, [r"flattens images \[64, 48, 3\]"]),
        ({}, spaces.Dict(camera=IMAGE, speed=VECTOR), CHOICE, ["flattens images"]),
        ({}, GRID, CHOICE, []),
        ({"network": "nature"}, IMAGE, CHOICE, []),
        ({"network": "impala"}, IMAGE, CHOICE, []),
        ({"steps": 5_000}, VECTOR, CHOICE, ["5,000 become 6,144, whole rollouts of 2,048 .8 num_"]),
        ({"steps": 2_000}, VECTOR, CHOICE, []),
        ({"algorithm": "reinforce:Reinforce", "steps": 1}, VECTOR, CHOICE, ["1 become 2,048"]),
        (
            {**SAC, "rollout_length": 1, "gradient_steps": 0.3},
            *(VECTOR, VECTOR, ["0.3 becomes 0.25, a whole number per rollout of 8 steps"]),
        ),
        ({**SAC, "rollout_length": 8, "gradient_steps": 0.3}, VECTOR, VECTOR, []),
    ],
)
def test_settings_that_do_not_fit_spaces_issue_a_warning(
    settings, observ, action, messages, recwarn
):
    warn_of_unfit_settings(load_config("default", **settings), observ, action)
    issued = [str(warning.message) for warning in recwarn]
    assert len(issued) == len(messages)
    assert all(re.search(*pair) for pair in zip(messages, issued, strict=True))
