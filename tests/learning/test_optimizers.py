import keras
import numpy as np
import pytest
import tensorflow as tf

from agents.errors import UsageError
from agents.learning.optimizers import TorchAdam, make_optimizers, named_state
from agents.settings.config_file import load_config

GRADIENTS = {"policy/kernel": [30.0, 0.0], "policy/log_std": 40.0, "value/kernel": [0.0, 6.0]}


def make(**settings):
    variables = {name: tf.Variable(tf.zeros_like(gradient)) for name, gradient in GRADIENTS.items()}
    sgd = {
        "optimizer": "sgd",
        "sgd_momentum": 0.0,
        "learning_rate": 0.1,
        "learning_rate_schedule": "constant",
    }
    return variables, make_optimizers(variables, load_config("default", **{**sgd, **settings}))


def apply(optimizers, progress=0.0):
    gradients = {name: tf.constant(gradient) for name, gradient in GRADIENTS.items()}
    return [float(optimizer.apply(gradients, tf.constant(progress))) for optimizer in optimizers]


def sums_of(variables):
    return [float(variable.numpy().sum()) for variable in variables.values()]


def test_one_optimizer_clips_by_the_norm_of_all_gradients():
    variables, optimizers = make(max_gradient_norm=1.0)
    norm = np.sqrt(30**2 + 40**2 + 6**2)
    np.testing.assert_allclose(apply(optimizers), [norm], rtol=1e-6)
    np.testing.assert_allclose(sums_of(variables), np.array([-3, -4, -0.6]) / norm, rtol=1e-6)


def test_separate_optimizers_clip_by_their_own_norms_and_have_their_own_rates():
    variables, optimizers = make(max_gradient_norm=10.0, critic_learning_rate=0.5)
    np.testing.assert_allclose(apply(optimizers), [50, 6], rtol=1e-6)
    np.testing.assert_allclose(sums_of(variables), [-0.6, -0.8, -3], rtol=1e-6)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [("constant", [0.1, 0.5]), ("linear", [0.025, 0.125]), ("kl", [0.1, 0.5])],
)
def test_learning_rates_follow_their_schedule(schedule, rates):
    variables, optimizers = make(
        max_gradient_norm=0.0, critic_learning_rate=0.5, learning_rate_schedule=schedule
    )
    apply(optimizers, progress=0.75)
    expected = [-30 * rates[0], -40 * rates[0], -6 * rates[1]]
    np.testing.assert_allclose(sums_of(variables), expected, rtol=1e-6)


def test_only_the_actor_follows_the_kl_divergence():
    _, (actor, critic) = make(
        critic_learning_rate=0.5, learning_rate=1e-3, learning_rate_schedule="kl"
    )
    for optimizer in (actor, critic):
        optimizer.learning_rate.observe(tf.constant(1.0), tf.constant(True))
    np.testing.assert_allclose(actor.learning_rate.value(tf.constant(0.0)), 1e-3 / 1.5, rtol=1e-6)
    np.testing.assert_allclose(critic.learning_rate.value(tf.constant(0.0)), 0.5)


@pytest.mark.parametrize(("optimizer", "slots"), [("adam", 6), ("sgd", 3)])
@pytest.mark.parametrize("critic_learning_rate", [0.0, 0.5])
def test_names_in_checkpoints_are_unique_and_independent_of_the_process(
    optimizer, slots, critic_learning_rate
):
    settings = {
        "optimizer": optimizer,
        "sgd_momentum": 0.9,
        "critic_learning_rate": critic_learning_rate,
    }
    runs = [make(**settings, learning_rate_schedule="kl")[1] for _ in range(2)]
    names = [[name for one in optimizers for name in one.variables()] for optimizers in runs]
    assert names[0] == names[1]  # Keras has numbered the first optimizers' slots.
    assert len(set(names[0])) == len(names[0])
    assert len([name for name in names[0] if name.endswith(("momentum", "velocity"))]) == slots
    assert "learning_rate/rate" in names[0]


# Names of Keras' variables.


def built(optimizer, *shapes):
    """Trained variables by name, and an optimizer of them."""
    trained = {f"policy/{index}": tf.Variable(tf.zeros(s)) for index, s in enumerate(shapes)}
    optimizer.build(list(trained.values()))
    return trained, optimizer


def test_slots_are_named_after_the_variables_they_belong_to():
    trained, adam = built(keras.optimizers.Adam(), [2], [3])
    gradients = [tf.fill([2], 10.0), tf.fill([3], 20.0)]
    adam.apply(gradients, list(trained.values()))
    state = named_state(adam.variables, trained)
    kinds = ("momentum", "velocity")
    slots = {f"policy/{index}/{kind}" for index in (0, 1) for kind in kinds}
    assert set(state) == {"iteration", "learning_rate"} | slots
    assert int(state["iteration"]) == 1
    np.testing.assert_allclose(state["policy/0/momentum"], np.full(2, 1.0))  # 0.1 * 10
    np.testing.assert_allclose(state["policy/1/momentum"], np.full(3, 2.0))
    np.testing.assert_allclose(state["policy/1/velocity"], np.full(3, 0.4))  # 0.001 * 20^2
    assert {id(variable) for variable in state.values()} == {
        id(variable.value) for variable in adam.variables
    }


@pytest.mark.parametrize("change", ["by kind", "one too many", "one too few"])
@pytest.mark.parametrize("size", [2, 3])  # Equal shapes do not tell slots apart.
def test_slots_in_another_order_are_numbered(change, size):
    trained, adam = built(keras.optimizers.Adam(), [2], [size])
    counters, slots = adam.variables[:2], adam.variables[2:]
    slots = {
        "by kind": [slots[0], slots[2], slots[1], slots[3]],
        "one too many": [*slots, keras.Variable(np.zeros(4), name="beta")],
        "one too few": slots[:3],
    }[change]
    state = named_state([*counters, *slots], trained)
    numbered = {f"slot_{index}" for index in range(len(slots))}
    assert set(state) == {"iteration", "learning_rate"} | numbered
    for index, slot in enumerate(slots):
        assert state[f"slot_{index}"] is slot.value


# Adam as in PyTorch.

RATE, EPSILON, STEPS = 1e-2, 1e-3, 5
SHAPES = [(3, 2), (2,)]


def gradients_of(step):
    """Gradients of which some are as small as epsilon, where it matters most."""
    generator = np.random.default_rng(step)
    return [
        (generator.normal(size=shape) * 10.0 ** generator.uniform(-5, 1, shape)).astype(np.float32)
        for shape in SHAPES
    ]


def weights_after(optimizer):
    variables = [tf.Variable(tf.ones(shape)) for shape in SHAPES]
    optimizer.build(variables)
    apply = tf.function(optimizer.apply, jit_compile=True)
    for step in range(STEPS):
        apply([tf.constant(gradient) for gradient in gradients_of(step)], variables)
    return [variable.numpy() for variable in variables]


def algorithm_1(beta_1=0.9, beta_2=0.999):
    """A plain loop over steps, in double precision."""
    weights = [np.ones(shape) for shape in SHAPES]
    first, second = ([np.zeros(shape) for shape in SHAPES] for _ in range(2))
    for step in range(1, STEPS + 1):
        for index, gradient in enumerate(gradients_of(step - 1)):
            first[index] = beta_1 * first[index] + (1 - beta_1) * gradient
            second[index] = beta_2 * second[index] + (1 - beta_2) * gradient.astype(float) ** 2
            mean, square = first[index] / (1 - beta_1**step), second[index] / (1 - beta_2**step)
            weights[index] = weights[index] - RATE * mean / (np.sqrt(square) + EPSILON)
    return weights


def test_weights_are_those_of_algorithm_1():
    optimizer = TorchAdam(RATE, epsilon=EPSILON)
    for ours, expected in zip(weights_after(optimizer), algorithm_1(), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-6)
    assert optimizer.epsilon == EPSILON


def adam_with_weight_decay(config):
    return keras.optimizers.AdamW(weight_decay=config.custom_settings["decay"], epsilon=1e-5)


def lion(config):
    return keras.optimizers.Lion()


def with_schedule(config):
    return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 10))


def with_paths(config):
    return keras.optimizers.Muon()


def nothing(config):
    pass


SHARED = []


def shared(config):
    SHARED.append(keras.optimizers.Adam())
    return SHARED[0]


def test_an_optimizer_of_the_user_has_the_settings_rate_and_is_saved():
    """Against the formula of Loshchilov and Hutter, 2019, arXiv 1711.05101, algorithm 2."""
    rate, decay = 0.1, 0.5
    variables, optimizers = make(
        optimizer=f"{__name__}:adam_with_weight_decay",
        custom_settings={"decay": decay},
        max_gradient_norm=0.0,
    )
    [optimizer] = optimizers
    expected = {name: np.zeros_like(gradient) for name, gradient in GRADIENTS.items()}
    for _ in range(3):
        apply(optimizers)
        for name, gradient in GRADIENTS.items():
            expected[name] -= rate * (decay * expected[name] + np.sign(gradient))
    for name, variable in variables.items():
        np.testing.assert_allclose(variable.numpy(), expected[name], atol=1e-4)
    names = optimizer.variables()
    assert "own/policy/kernel/momentum" in names and int(names["own/iteration"]) == 3


def test_optimizers_of_actor_and_critic_are_apart():
    _, (actor, critic) = make(optimizer=f"{__name__}:lion", critic_learning_rate=0.2)
    assert not actor.variables().keys() & critic.variables().keys()


def test_a_schedule_of_keras_replaces_the_settings_rate():
    variables, [optimizer] = make(optimizer=f"{__name__}:with_schedule", max_gradient_norm=0.0)
    expected = 0.0
    for step in range(4):
        rate = 0.1 * (1 + np.cos(np.pi * step / 10)) / 2
        np.testing.assert_allclose(optimizer.rate(tf.constant(0.9)), rate, rtol=1e-6)
        apply([optimizer], progress=0.9)
        expected -= rate  # Of Adam with equal gradients.
    np.testing.assert_allclose(variables["policy/log_std"], expected, rtol=1e-4)
    names = optimizer.variables()
    assert "own/policy/kernel/momentum" in names and int(names["own/iteration"]) == 4
    with pytest.raises(UsageError, match="which learning_rate_schedule kl would adapt"):
        make(optimizer=f"{__name__}:with_schedule", learning_rate_schedule="kl")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("with_paths", "with_paths' failed\nAttributeError"),
        ("nothing", "expected a Keras optimizer, got NoneType"),
        ("missing", "has no 'missing'"),
        ("shared", "expected a new optimizer in each call"),
    ],
)
def test_other_optimizers_are_refused(function, message):
    with pytest.raises(UsageError, match=message):
        make(optimizer=f"{__name__}:{function}")
