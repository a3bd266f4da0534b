import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import UnsupportedSpaceError
from agents.policies.inputs import Inputs
from agents.spaces import exceeds_float32, flatten, leaf_spaces, pack

SHAPES = st.lists(st.integers(1, 3), max_size=2).map(tuple)
BOXES = st.one_of(
    st.builds(
        lambda shape, dtype: spaces.Box(-5, 5, shape, dtype),
        SHAPES,
        st.sampled_from([np.float32, np.float64]),
    ),
    st.builds(
        lambda shape, dtype: spaces.Box(0, 200, shape, dtype),
        SHAPES,
        st.sampled_from([np.uint8, np.int64]),
    ),
)
DISCRETE = st.one_of(
    st.builds(
        lambda n, start, dtype: spaces.Discrete(n, start=start, dtype=dtype),
        st.integers(1, 5),
        st.integers(-3, 3),
        st.sampled_from([np.int32, np.int64]),
    ),
    st.builds(
        lambda nvec, start: spaces.MultiDiscrete(nvec, start=np.full_like(nvec, start)),
        st.lists(st.integers(1, 4), min_size=1, max_size=3).map(np.array),
        st.integers(-2, 2),
    ),
    st.builds(spaces.MultiBinary, st.integers(1, 4)),
)
# Gymnasium's own flattening keeps the order of keys; ours sorts them, as `tf.nest` does.
SPACES = st.recursive(
    BOXES | DISCRETE,
    lambda inner: (
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3).map(
            lambda items: spaces.Dict(dict(sorted(items.items())))
        )
        | st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple)
    ),
    max_leaves=4,
)


def stacked(space, elements):
    """Tensors [N, ...] of N elements of a space."""
    leaves = zip(*(flatten(space, element) for element in elements), strict=True)
    return pack(space, [tf.constant(np.stack(leaf)) for leaf in leaves])


@given(SPACES, st.integers(1, 3), st.integers(0, 1000))
@settings(max_examples=80, deadline=None)
def test_vectors_equal_those_of_gymnasium(space, num_elements, seed):
    space.seed(seed)
    elements = [space.sample() for _ in range(num_elements)]
    inputs = Inputs(space)
    vectors = inputs.convert(stacked(space, elements))["vector"]
    is_wide = any(map(exceeds_float32, leaf_spaces(space)))
    assert vectors.dtype == inputs.dtype == (tf.float64 if is_wide else tf.float32)
    assert vectors.shape == (num_elements, *inputs.shapes["vector"])
    expected = np.stack([spaces.flatten(space, element) for element in elements])
    np.testing.assert_array_equal(vectors, expected.astype(vectors.dtype.as_numpy_dtype))
    inputs.round_to_float32()
    rounded = inputs.convert(stacked(space, elements))["vector"]
    assert rounded.dtype == tf.float32
    np.testing.assert_array_equal(rounded, expected.astype(np.float32))


def test_observations_may_have_several_batch_dimensions():
    space = spaces.Dict(
        choice=spaces.Discrete(3),
        gears=spaces.MultiDiscrete([2, 1]),
        speed=spaces.Box(-1, 1, (2, 1), np.float64),
    )
    observ = {
        "choice": tf.constant([[2], [0]], tf.int64),
        "gears": tf.constant([[[1, 0]], [[0, 0]]], tf.int64),
        "speed": tf.fill([2, 1, 2, 1], tf.constant(0.5, tf.float64)),
    }
    expected = [[[0, 0, 1, 0, 1, 1, 0.5, 0.5]], [[1, 0, 0, 1, 0, 1, 0.5, 0.5]]]
    convert = Inputs(space).convert
    np.testing.assert_array_equal(convert(observ)["vector"], expected)
    for axis in range(2):  # The size of one of them may be unknown.
        specs = {}
        for name, value in observ.items():
            shape = [None if index == axis else size for index, size in enumerate(value.shape)]
            specs[name] = tf.TensorSpec(shape, value.dtype)
        traced = tf.function(convert, input_signature=[specs])
        np.testing.assert_array_equal(traced(observ)["vector"], expected)


@pytest.mark.parametrize(
    "shape, expected",
    [
        ((4, 6), (4, 6, 1)),
        ((4, 6, 3), (4, 6, 3)),
        ((3, 4, 6), (4, 6, 3)),
        ((3, 3, 8), (3, 3, 8)),  # With channels first there would be as many as rows.
    ],
)
def test_images_are_inputs_of_their_own_with_channels_last(shape, expected):
    space = spaces.Dict(
        camera=spaces.Box(0, 255, shape, np.uint8), speed=spaces.Box(-1, 1, (2,), np.float32)
    )
    inputs = Inputs(space, keep_images=True)
    assert inputs.shapes == {"vector": (2,), "image_0": expected}
    assert Inputs(space["camera"], keep_images=True).shapes == {"image_0": expected}
    assert Inputs(space["camera"]).shapes == {"vector": (np.prod(shape),)}
    images = np.arange(2 * 5 * np.prod(shape)).reshape(2, 5, *shape).astype(np.uint8)
    converted = inputs.convert({"camera": tf.constant(images), "speed": tf.ones([2, 5, 2])})
    assert converted["image_0"].dtype == tf.uint8
    if shape == (3, 4, 6):
        images = np.moveaxis(images, 2, -1)
    np.testing.assert_array_equal(converted["image_0"], images.reshape(2, 5, *expected))
    np.testing.assert_array_equal(converted["vector"], np.ones([2, 5, 2]))


def test_action_masks_are_not_inputs_of_networks():
    space = spaces.Dict(
        action_mask=spaces.MultiBinary(3), observ=spaces.Box(-1, 1, (2,), np.float32)
    )
    inputs = Inputs(space, action_mask=True)
    assert inputs.shapes == {"vector": (2,)}
    converted = inputs.convert(
        {"action_mask": tf.constant([[1, 0, 1]], tf.int8), "observ": tf.constant([[0.5, -0.5]])}
    )
    np.testing.assert_array_equal(converted["action_mask"], [[True, False, True]])
    np.testing.assert_array_equal(converted["vector"], [[0.5, -0.5]])


def test_vectors_keep_what_float32_would_round():
    space = spaces.Dict(
        time=spaces.Box(-np.inf, np.inf, (1,), np.float64),
        count=spaces.Box(0, 2**60, (), np.int64),
        gear=spaces.Discrete(2),
    )
    inputs = Inputs(space)
    observ = {
        "time": tf.constant([[1.7e9 + 0.25]], tf.float64),
        "count": tf.constant([2**40 + 1], tf.int64),
        "gear": tf.constant([1], tf.int64),
    }
    vector = inputs.convert(observ)["vector"]
    assert vector.dtype == inputs.dtype == tf.float64
    np.testing.assert_array_equal(vector, [[2**40 + 1, 0, 1, 1.7e9 + 0.25]])
    assert Inputs(spaces.Box(0, 9, (2,), np.int16)).dtype == tf.float32


ROBOT = spaces.Dict(
    camera=spaces.Box(0, 255, (36, 40, 3), np.uint8),
    map=spaces.Box(0, 255, (40, 40), np.uint8),
    joints=spaces.Box(-1, 1, (3,), np.float32),
    state=spaces.Box(-1, 1, (2,), np.float64),
    action_mask=spaces.MultiBinary(2),
)


def test_some_keys_are_for_the_critic_only():
    inputs = Inputs(ROBOT, keep_images=True, action_mask=True, critic_keys=["state", "map"])
    assert inputs.shapes == {"vector": (3,), "image_0": (36, 40, 3)}
    joined_shapes = {"vector": (5,), "image_0": (36, 40, 3), "image_1": (40, 40, 1)}
    assert inputs.value_shapes == joined_shapes and inputs.critic_size == 2
    assert set(inputs.acting_space.spaces) == {"camera", "joints", "action_mask"}
    observ = {key: tf.constant(value[None]) for key, value in ROBOT.sample().items()}
    acting = {key: observ[key] for key in inputs.acting_space.spaces}
    assert set(inputs.convert(acting)) == {"vector", "image_0", "action_mask"}
    converted = inputs.convert(observ, critic=True)
    np.testing.assert_array_equal(converted["vector"], observ["joints"])
    np.testing.assert_array_equal(converted["critic_vector"], observ["state"])
    np.testing.assert_array_equal(converted["critic_image_0"], observ["map"][..., None])
    assert converted["vector"].dtype == tf.float32
    joined = [[*observ["joints"][0].numpy(), *observ["state"][0].numpy()]]
    normalized = {**converted, "critic_vector": tf.cast(converted["critic_vector"], tf.float32)}
    result = inputs.join(normalized)
    assert {name: tuple(value.shape[1:]) for name, value in result.items()} == joined_shapes
    np.testing.assert_allclose(result["vector"], joined, rtol=1e-6)
    np.testing.assert_array_equal(result["image_1"], converted["critic_image_0"])
    np.testing.assert_array_equal(inputs.numbers(observ), joined)
    for key, numbers in (("joints", observ["joints"]), ("camera", None)):
        one = Inputs(spaces.Dict({key: ROBOT[key]}), keep_images=True)
        np.testing.assert_array_equal(one.numbers({key: observ[key]}), numbers)


@pytest.mark.parametrize("keys, kept", [(["map"], ["vector"]), (["state", "joints"], ["vector"])])
def test_policy_or_critic_may_have_no_vector_of_their_own(keys, kept):
    space = spaces.Dict({key: ROBOT[key] for key in (*keys, "camera", "joints")})
    inputs = Inputs(space, keep_images=True, critic_keys=keys)
    observ = {key: tf.constant(value[None]) for key, value in space.sample().items()}
    result = inputs.join(inputs.convert(observ, critic=True))
    assert {name: tuple(value.shape[1:]) for name, value in result.items()} == inputs.value_shapes
    assert set(kept) < set(result)


@pytest.mark.parametrize(
    ("space", "settings", "message"),
    [
        (spaces.Box(-1, 1, (2,)), {"action_mask": True}, "with an 'action_mask'"),
        (
            spaces.Box(-1, 1, (2,)),
            {"critic_keys": ["state"]},
            "the key 'state'.*keys are none",
        ),
        (ROBOT, {"critic_keys": ["sate"]}, "'sate'.*joints"),
        (ROBOT, {"critic_keys": ["action_mask"]}, "'action_mask'"),
        (ROBOT, {"critic_keys": ["camera", "map", "joints", "state"]}, "got all keys"),
    ],
)
def test_spaces_that_do_not_fit_the_settings_raise(space, settings, message):
    with pytest.raises(UnsupportedSpaceError, match=f"(?s){message}"):
        Inputs(space, **settings)
