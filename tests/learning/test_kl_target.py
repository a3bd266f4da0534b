import pytest

from agents.learning.kl_target import with_kl_target
from agents.settings.config_file import load_config


@pytest.mark.parametrize("dimensions, target", [(1, 0.003), (4, 0.006), (9, 0.009)])
def test_the_target_grows_with_the_root_of_the_dimensions(dimensions, target):
    config = load_config("default", kl_target=0.003, multiply_kl_target=True)
    scaled = with_kl_target(config, dimensions)
    assert scaled.kl_target == pytest.approx(target)
    # Once is enough.
    assert with_kl_target(scaled, dimensions) == scaled


def test_a_target_of_all_dimensions_stays():
    config = load_config("default", kl_target=0.003)
    assert with_kl_target(config, 9) == config
