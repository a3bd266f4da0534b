"""Names of variables in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf


def grouped(**groups: Mapping[str, tf.Variable]) -> dict[str, tf.Variable]:
    """Returns the variables of all groups, by `<group>/<name>`."""
    return {
        f"{group}/{name}": variable
        for group, variables in groups.items()
        for name, variable in variables.items()
    }
