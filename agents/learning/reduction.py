"""What several learners agree on: averages and sums of tensors over all of them."""

from __future__ import annotations

from typing import TypeVar

Structure = TypeVar("Structure")


class Reducer:
    """Combines the tensors of several data-parallel learners; with one learner, the identity.

    Everything that learners have to agree on passes through one reducer: gradients, moments of
    normalizers and advantages, the KL divergence of stops, schedules and penalties, and explained
    variance (Wijmans et al., "DD-PPO", 2020, arXiv 1911.00357). Every learner has the same number
    of environments, so that the mean of means is the mean.

    Attributes:
      compiles: Whether XLA can compile the operations. If not, loops that reduce run as plain
        graphs with compiled parts.
    """

    compiles = True

    def mean(self, tensors: Structure) -> Structure:
        """The mean over learners of each tensor in a `tf.nest` structure."""
        return tensors

    def sum(self, tensors: Structure) -> Structure:
        """The sum over learners of each tensor in a `tf.nest` structure."""
        return tensors


SINGLE_LEARNER = Reducer()
