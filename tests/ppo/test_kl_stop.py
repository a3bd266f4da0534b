import pytest
import tensorflow as tf

from agents.ppo.kl_stop import make_stop
from agents.settings.config_file import load_config

NORM = 7.0


@pytest.mark.parametrize(
    ("settings", "kl", "ends_epoch", "applied", "goes_on"),
    [
        ({}, 1e9, True, True, True),
        ({"kl_stop": 0.1}, 0.09, True, True, True),
        ({"kl_stop": 0.1}, 0.11, False, False, False),
        ({"kl_stop": 0.1}, float("inf"), True, False, False),
        ({"kl_stop": 0.1, "kl_stop_after": "epoch"}, 0.11, False, True, True),
        ({"kl_stop": 0.1, "kl_stop_after": "epoch"}, 0.09, True, True, True),
        ({"kl_stop": 0.1, "kl_stop_after": "epoch"}, 0.11, True, True, False),
    ],
)
def test_whether_a_step_is_made_and_whether_there_is_another_one(
    settings, kl, ends_epoch, applied, goes_on
):
    stop, steps = make_stop(load_config("default", **settings)), tf.Variable(0)

    def step():
        steps.assign_add(1)
        return tf.constant(NORM)

    norm, *flags = stop(tf.constant(kl), tf.constant(ends_epoch), step)
    assert [bool(flag) for flag in flags] == [applied, goes_on]
    assert int(steps) == applied
    assert float(norm) == NORM * applied


def test_the_end_of_an_epoch_asks_for_its_mean():
    """One minibatch that is far from the others neither ends an update nor lets it go on."""
    stop = make_stop(load_config("default", kl_stop=0.1, kl_stop_after="epoch"))
    for kls, goes_on in [
        ((0.05, 0.12), True),
        ((0.05, 0.16), False),
        ((0.05, 0.14), True),
        ((0.3, 0.0), False),
    ]:
        for kl, ends_epoch in zip(kls, (False, True), strict=True):
            *_, went_on = stop(tf.constant(kl), tf.constant(ends_epoch), lambda: tf.constant(NORM))
        assert bool(went_on) == goes_on
