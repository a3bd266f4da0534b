import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.policies.averaged_policy import AveragedPolicy, averaged_variables
from agents.policies.policy import Policy
from agents.settings.config_file import load_config

BOX = spaces.Box(-1, 1, (2,), np.float32)


def make(seed=0):
    return Policy(BOX, BOX, load_config("default", layers=[3], seed=seed))


def weights(policy):
    return {name: value.numpy() for name, value in policy.network.variables().items()}


def test_averages_weights_and_takes_over_statistics():
    trained, average = make(), AveragedPolicy(make(), decay=0.75)
    random, history = np.random.default_rng(0), []
    for _ in range(12):
        for variable in trained.network.variables().values():
            variable.assign(random.normal(size=variable.shape))
        trained.update_normalizers({"vector": tf.constant(random.normal(size=[5, 2]), tf.float32)})
        average.update(trained)
        history.append(weights(trained))
    for name, averaged in weights(average.policy).items():
        expected = np.zeros_like(averaged)
        for count, entry in enumerate(history, start=1):
            expected += max(0.25, 1 / count) * (entry[name] - expected)
        np.testing.assert_allclose(averaged, expected, rtol=1e-5, atol=1e-6)
    observ = tf.ones([1, 2])
    np.testing.assert_array_equal(
        average.policy.preprocess(observ)["vector"], trained.preprocess(observ)["vector"]
    )


def test_the_first_weights_replace_the_initial_ones():
    trained, average = make(seed=1), AveragedPolicy(make(), decay=0.999)
    average.update(trained)
    np.testing.assert_equal(weights(average.policy), weights(trained))
    names = {f"averaged/{name}" for name in trained.variables()}  # Of checkpoints.
    assert set(averaged_variables(average.policy)) == names
    assert set(average.variables()) == names | {"averaged/count"}
