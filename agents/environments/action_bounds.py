"""Bounds of actions, and whether a policy that is not trained yet acts between them."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

# Bounds of actions that samples of deviation 1 miss, and the smallest bound that stands for none.
_SMALLEST_BOUND, _LARGEST_BOUND, _UNBOUNDED = 0.1, 10.0, 1e18


def center_and_scale(space: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """Returns center and half of the width of a Box, which map [-1, 1] to its bounds.

    Returns:
      float64 [*space.shape] each; not finite where bounds are not.
    """
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    with np.errstate(invalid="ignore"):
        # Halved before they are added, since low + high can overflow.
        return low / 2 + high / 2, high / 2 - low / 2


def far_from_unit(space: spaces.Box) -> np.ndarray:
    """Returns which dimensions of a Box have finite bounds that samples around 0, of deviation 1, miss.

    They reach little of [-1000, 1000], exceed [-0.01, 0.01] nearly always, and are outside of [5, 6].

    Returns:
      bool [*space.shape].
    """
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    finite = (low > -_UNBOUNDED) & (high < _UNBOUNDED)
    far = (high > _LARGEST_BOUND) | (low < -_LARGEST_BOUND)
    narrow = (high < _SMALLEST_BOUND) & (low > -_SMALLEST_BOUND)
    return finite & (far | narrow | (low > 0) | (high < 0))
