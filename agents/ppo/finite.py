"""Numbers that are not finite, found inside of a compiled program, where assertions vanish."""

from __future__ import annotations

import tensorflow as tf

from agents.ppo.policy import Policy
from agents.tools.attr_dict import AttrDict


def watched(policy: Policy, rollout: AttrDict) -> dict[str, tf.Tensor]:
    """What environments and policy gave, to be looked through for numbers that are not finite: [T, B, ...] each."""
    inputs = map(policy.inputs, (rollout.observ, rollout.final_observ, rollout.last_observ))
    done = rollout.terminated | rollout.truncated
    samples = tf.nest.flatten(rollout.sample)
    found = {
        "reward": rollout.reward,  # [T, B]
        "action": tf.concat([_vectors(tf.cast(sample, tf.float32)) for sample in samples], axis=-1),  # [T, B, A]
    }
    if "vector" in policy.inputs.shapes:  # Images are whole numbers.
        observ, final_observ, last_observ = (each["vector"] for each in inputs)
        found["observ"] = tf.concat([observ, last_observ[None]], axis=0)  # [T + 1, B, O]
        found["final_observ"] = tf.where(done[..., None], final_observ, 0.0)  # [T, B, O]
    return found


def first_nonfinite(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """First NaN or infinity in values [T, B, ...], float32 [], and its flat index in [T, B] or -1, int32 []."""
    flat = tf.reshape(tf.cast(values, tf.float32), [-1])
    bad = ~tf.math.is_finite(flat)
    first = tf.argmax(bad, output_type=tf.int32)
    numbers_each = flat.shape[0] // (values.shape[0] * values.shape[1])
    return tf.gather(flat, first), tf.where(tf.reduce_any(bad), first // numbers_each, -1)


def _vectors(values: tf.Tensor) -> tf.Tensor:
    return values[..., None] if len(values.shape) == 2 else values
