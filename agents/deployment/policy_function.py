"""A policy as one function of flat, named tensors, for any number of environments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from agents.policies.policy import Policy
from agents.spaces import Leaf, flatten, leaf_paths, leaf_spaces, pack
from agents.types import Space


class NamedLeaf(NamedTuple):
    """A leaf of a space.

    Attributes:
      name: Such as `observ`, or `observ_position` in a Dict space; unique in the space, in any case.
      space: The leaf.
    """

    name: str
    space: Leaf


class PolicyFunction(tf.Module):
    """Computes actions from observations and recurrent state; shapes are [N, ...] for any N.

    Attributes:
      observ_leaves: The arguments, in order, before those of the recurrent state.
      action_leaves: The actions, in order.
      state_specs: The further arguments, recurrent state before the step; all zeros at the start of
        an episode. None for policies without memory.
      call: The `tf.function`. It returns a dictionary of the actions by name, and of the recurrent
        state after the step as `next_<name>`.
    """

    def __init__(
        self,
        policy: Policy,
        action_space: Space,
        deterministic: bool = True,
    ):
        """Wraps a policy.

        Args:
          policy: The policy, with its weights.
          action_space: The space that the policy was made for.
          deterministic: Whether to take the mode of the distributions.
        """
        super().__init__()
        self._policy, self._deterministic = policy, deterministic
        observation_space = policy.inputs.acting_space
        self._spaces = observation_space, action_space
        # A module saves the variables that its attributes hold.
        self._saved_variables = list(policy.variables().values())
        self.observ_leaves = name_leaves(observation_space, "observ")
        self.action_leaves = name_leaves(action_space, "action")
        states = tf.nest.flatten(policy.zero_states(1))
        self.state_specs = [
            tf.TensorSpec([None, *state.shape[1:]], state.dtype, f"state_{index}")
            for index, state in enumerate(states)
        ]
        observ_specs = [
            tf.TensorSpec([None, *leaf.shape], leaf.dtype, name)
            for name, leaf in self.observ_leaves
        ]
        self.call = tf.function(
            self._act, input_signature=[*observ_specs, *self.state_specs], autograph=False
        )

    @functools.cached_property
    def concrete(self) -> Callable[..., dict[str, tf.Tensor]]:
        """The one graph of `call`; takes tensors, and half of the time."""
        function: Callable[..., dict[str, tf.Tensor]] = self.call.get_concrete_function()
        return function

    def _act(self, *tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        observation_space, action_space = self._spaces
        observ = pack(observation_space, tensors[: len(self.observ_leaves)])
        states = tf.nest.pack_sequence_as(
            self._policy.zero_states(1), tensors[len(self.observ_leaves) :]
        )
        _, action, states = self._policy.act(observ, self._deterministic, states=states)
        actions = dict(
            zip(
                [name for name, _ in self.action_leaves], flatten(action_space, action), strict=True
            )
        )
        pairs = zip(self.state_specs, tf.nest.flatten(states), strict=True)
        return {**actions, **{f"next_{spec.name}": state for spec, state in pairs}}


def graph_of(policy: Policy, action_space: Space) -> bytes:
    """Encodes the graph from observations to actions as a `GraphDef`, to look at."""
    function = PolicyFunction(policy, action_space)
    encoded: bytes = function.call.get_concrete_function().graph.as_graph_def().SerializeToString()
    return encoded


def name_leaves(space: Space, prefix: str) -> list[NamedLeaf]:
    """Names the leaves of a space by their path in it, in the order of `agents.spaces`.

    A name is the prefix, then the keys and indices of the path, joined by underscores. A first key
    that equals the prefix is not repeated. Characters other than ASCII letters, digits and
    underscores become underscores. A name that an earlier leaf has, in any case, gets underscores
    at its end: SavedModel ignores case.
    """
    named: list[NamedLeaf] = []
    taken: set[str] = set()
    for path, leaf in zip(leaf_paths(space), leaf_spaces(space), strict=True):
        keys = path if path[:1] == (prefix,) else (prefix, *path)
        name = re.sub(r"\W", "_", "_".join(map(str, keys)), flags=re.ASCII)
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        named.append(NamedLeaf(name, leaf))
    return named
