import pytest

from agents.learning.kl_limits import multiply_kl_limits
from agents.settings.config_file import load_config


@pytest.mark.parametrize("dimensions, factor", [(1, 1), (4, 2), (9, 3)])
@pytest.mark.parametrize("name, other", [("kl_stop", "kl_target"), ("kl_target", "kl_stop")])
def test_limits_grow_with_the_root_of_the_dimensions(name, other, dimensions, factor):
    limits = {"kl_stop": 0.02, "kl_target": 0.003}
    config = load_config("default", **limits, **{f"multiply_{name}": True})
    multiplied = multiply_kl_limits(config, dimensions)
    assert getattr(multiplied, name) == pytest.approx(factor * limits[name])
    assert getattr(multiplied, other) == limits[other]
    # Once is enough.
    assert multiply_kl_limits(multiplied, dimensions) == multiplied


def test_limits_of_all_dimensions_stay():
    config = load_config("default", kl_stop=0.02, kl_target=0.003)
    assert multiply_kl_limits(config, 9) == config
