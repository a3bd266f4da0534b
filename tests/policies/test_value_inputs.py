import numpy as np
import pytest
import tensorflow as tf

from agents.policies.value_inputs import ValueInputs


@pytest.mark.parametrize("has_vector", [False, True])
@pytest.mark.parametrize("critic_has_vector", [False, True])
def test_vectors_are_joined_and_images_follow(has_vector, critic_has_vector):
    shapes = {"image_0": (4, 4, 1), **({"vector": (3,)} if has_vector else {})}
    critic_shapes = {"image_0": (5, 5, 1), **({"vector": (2,)} if critic_has_vector else {})}
    joined = ValueInputs(shapes, critic_shapes)
    size = 3 * has_vector + 2 * critic_has_vector
    expected = {"image_0": (4, 4, 1), "image_1": (5, 5, 1)}
    assert joined.shapes == {**expected, **({"vector": (size,)} if size else {})}
    inputs = {name: tf.fill([7, *shape], 1.0) for name, shape in shapes.items()}
    inputs |= {f"critic_{name}": tf.fill([7, *shape], 2.0) for name, shape in critic_shapes.items()}
    result = joined.join(inputs)
    assert {name: tuple(value.shape[1:]) for name, value in result.items()} == joined.shapes
    assert result["image_0"][0, 0, 0, 0] == 1 and result["image_1"][0, 0, 0, 0] == 2
    if size:
        np.testing.assert_array_equal(
            result["vector"][0], [1] * 3 * has_vector + [2] * 2 * critic_has_vector
        )


def test_without_a_critics_inputs_nothing_changes():
    inputs = {"vector": tf.ones([2, 3]), "action_mask": tf.ones([2, 2])}
    joined = ValueInputs({"vector": (3,)}, {})
    assert joined.join(inputs) is inputs and joined.shapes == {"vector": (3,)}
