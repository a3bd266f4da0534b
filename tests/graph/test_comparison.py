"""Environments in TensorFlow equal those of Gymnasium."""

import pytest

from tests.graph import (
    comparison,
    test_acrobot,
    test_cartpole,
    test_mountain_car_continuous,
    test_pendulum,
)

REFERENCES = [
    module.REFERENCE
    for module in (test_acrobot, test_cartpole, test_mountain_car_continuous, test_pendulum)
]
CHECKS = [
    comparison.check_episodes,
    comparison.check_steps,
    comparison.check_specification,
    comparison.check_initial_observations,
]


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.id)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_environments_equal_gymnasiums(check, reference):
    check(reference)
