import pytest
import tensorflow as tf

from agents.ppo.kl_limits import KLStop, multiply_kl_limits
from agents.settings.config_file import load_config

NORM = 7.0
EPOCH = {"kl_stop": 0.1, "kl_stop_after": "epoch"}


@pytest.mark.parametrize(
    ("settings", "kl", "ends_epoch", "applied", "proceeds"),
    [
        ({}, 1e9, True, True, True),
        ({"kl_stop": 0.1}, 0.09, True, True, True),
        ({"kl_stop": 0.125}, 0.125, True, True, True),
        ({"kl_stop": 0.1}, 0.11, False, False, False),
        ({"kl_stop": 0.1, "multiply_kl_stop": True}, 0.19, True, True, True),
        ({"kl_stop": 0.1, "multiply_kl_stop": True}, 0.21, False, False, False),
        ({**EPOCH, "multiply_kl_stop": True}, 0.19, True, True, True),
        ({**EPOCH, "multiply_kl_stop": True}, 0.21, True, True, False),
        ({"kl_stop": 0.1}, float("inf"), True, False, False),
        ({"kl_stop": 0.1}, float("nan"), True, True, True),
        (EPOCH, 0.11, False, True, True),
        (EPOCH, 0.09, True, True, True),
        (EPOCH, 0.11, True, True, False),
        (EPOCH, float("nan"), True, True, True),
    ],
)
def test_whether_gradients_are_applied_and_the_update_continues(
    settings, kl, ends_epoch, applied, proceeds
):
    config = multiply_kl_limits(load_config("default", **settings), 4)
    stop, num_applied = KLStop(config.kl_stop, config.kl_stop_after), tf.Variable(0)

    def apply():
        num_applied.assign_add(1)
        return tf.constant(NORM)

    @tf.function(autograph=False)
    def step(kl, ends_epoch):
        return stop.step(kl, ends_epoch, apply)

    norm, *flags = step(tf.constant(kl), tf.constant(ends_epoch))
    assert [bool(flag) for flag in flags] == [applied, proceeds]
    assert int(num_applied) == applied
    assert float(norm) == NORM * applied


def test_the_end_of_an_epoch_considers_its_mean():
    """A single minibatch that is far from the others neither stops an update nor continues it."""
    stop = KLStop(0.1, "epoch")
    for kls, expected in [
        ((0.05, 0.12), True),
        ((0.05, 0.16), False),
        ((0.05, 0.14), True),
        ((0.3, 0.0), False),
    ]:
        for kl, ends_epoch in zip(kls, (False, True), strict=True):
            *_, proceeds = stop.step(
                tf.constant(kl), tf.constant(ends_epoch), lambda: tf.constant(NORM)
            )
        assert bool(proceeds) == expected


@pytest.mark.parametrize("dimensions, factor", [(1, 1), (9, 3)])
@pytest.mark.parametrize("multiplied", [[], ["kl_stop"], ["kl_target"]])
def test_limits_grow_with_the_root_of_the_dimensions(multiplied, dimensions, factor):
    limits = {"kl_stop": 0.02, "kl_target": 0.003}
    settings = {f"multiply_{name}": True for name in multiplied}
    config = load_config("default", objective="kl", **limits, **settings)
    config = multiply_kl_limits(config, dimensions)
    for name, limit in limits.items():
        expected = limit * (factor if name in multiplied else 1)
        assert getattr(config, name) == pytest.approx(expected)
