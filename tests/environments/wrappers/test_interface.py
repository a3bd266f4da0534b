import re

import numpy as np
import pytest
from gymnasium import spaces

from agents.environments.wrappers.interface import box_observation_space, whole_number
from agents.errors import UnsupportedSpaceError


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2)])
def test_whole_numbers_become_ints(value):
    number = whole_number("Wrapper: amount", value, minimum=2)
    assert type(number) is int and number == 2


@pytest.mark.parametrize("value", [1, 2.0, True, "2", None])
def test_other_values_raise(value):
    message = f"Wrapper: amount must be a whole number of at least 2, got {value!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        whole_number("Wrapper: amount", value, minimum=2)


def test_box_observation_space(script):
    space = spaces.Box(0, 9, (2,))
    assert box_observation_space("Wrapper", script([], space)) is space
    message = re.escape("Wrapper needs an environment that observes a Box, got Discrete(4)")
    with pytest.raises(UnsupportedSpaceError, match=message):
        box_observation_space("Wrapper", script([], spaces.Discrete(4)))
