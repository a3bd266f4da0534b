"""Types whose content this library leaves open: nested structures, spaces and environments.

The names say what a value is where Python's types can't: a nested structure has the form of a
Gymnasium space (an array, or dictionaries and tuples of them), which is known only at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:  # Settings use these types without importing NumPy and Gymnasium.
    import gymnasium
    import numpy as np
    from gymnasium import spaces, vector

# Environments and spaces of any observations and actions.
Env: TypeAlias = "gymnasium.Env[Any, Any]"
VectorEnv: TypeAlias = "vector.VectorEnv[Any, Any, Any]"
Space: TypeAlias = "spaces.Space[Any]"
EnvConstructor: TypeAlias = Callable[[], "Env"]

# Nested structures as `tf.nest` takes them, of one leaf or many.
NestedTensor: TypeAlias = Any  # Of `tf.Tensor` [B, ...].
NestedVariable: TypeAlias = Any  # Of `tf.Variable` [B, ...].
NestedArray: TypeAlias = Any  # Of `np.ndarray` [B, ...], or of one environment without the B.

# Array leaves of a batch, in the order of `agents.spaces.leaf_spaces`.
Leaves: TypeAlias = "list[np.ndarray]"

# Data as JSON has it: null, booleans, numbers, strings, lists, and dictionaries by string.
PlainData: TypeAlias = Any

# The `info` of one environment or the `infos` of a batch, as Gymnasium defines them.
Info: TypeAlias = dict[str, Any]

# What `reset(options=...)` takes.
Options: TypeAlias = dict[str, Any]

# A function without arguments that waits for a result and returns it.
Promise: TypeAlias = Callable[[], Any]
