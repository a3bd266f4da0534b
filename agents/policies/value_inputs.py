"""The inputs of a value function that gets more than the policy: asymmetric actor-critic.

Pinto et al., "Asymmetric Actor Critic for Image-Based Robot Learning" (2018, arXiv 1710.06542).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import tensorflow as tf

from agents.policies.inputs import CRITIC, NetworkInputs, Part, Parts


class ValueInputs:
    """Joins the policy's inputs with those of the critic only, so that torsos see usual names.

    The vectors become one, and the critic's images follow the policy's.

    Attributes:
      shapes: Shapes of the joined inputs, by name.
      parts: Where the joined inputs hold the parts of an observation.
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        critic_shapes: Mapping[str, tuple[int, ...]],
        parts: Parts = None,
        critic_parts: Parts = None,
    ):
        """Takes the shapes of the policy's inputs, and of those of the critic only, by name.

        Parts are those of `Inputs`.
        """
        self._vectors = [
            name
            for name, group in (("vector", shapes), (f"{CRITIC}vector", critic_shapes))
            if "vector" in group
        ]
        sizes = [group["vector"][0] for group in (shapes, critic_shapes) if "vector" in group]
        self.shapes: dict[str, tuple[int, ...]] = {"vector": (sum(sizes),)} if sizes else {}
        images = [(name, shape) for name, shape in shapes.items() if name != "vector"]
        images += [
            (f"{CRITIC}{name}", shape) for name, shape in critic_shapes.items() if name != "vector"
        ]
        # By the joined name: the name of the input.
        self._images = {f"image_{index}": name for index, (name, _) in enumerate(images)}
        self.shapes |= {f"image_{index}": shape for index, (_, shape) in enumerate(images)}
        self._is_joined = bool(critic_shapes)
        self.parts = parts
        if self._is_joined:
            joined = {source: name for name, source in self._images.items()}
            (size,) = shapes.get("vector", (0,))

            def move(part: Part) -> Part:
                name = joined.get(f"{CRITIC}{part.name}", part.name)
                return replace(part, name=name, start=part.start + size)

            self.parts = {**(parts or {}), **tf.nest.map_structure(move, critic_parts or {})}

    def join(self, inputs: NetworkInputs) -> NetworkInputs:
        """The joined inputs [..., *shape] of normalized inputs [..., *shape]."""
        if not self._is_joined:
            return inputs
        joined = {name: inputs[source] for name, source in self._images.items()}
        if self._vectors:
            joined["vector"] = tf.concat([inputs[name] for name in self._vectors], axis=-1)
        return joined
