"""A model of what several learners spend on communication, and its constants from measurements.

In a ring of n learners an array passes 2 (n - 1) messages to be summed, each 1 / n of the array, and
n - 1 messages to be gathered, each the whole array (Patarasuk and Yuan, 2009). All learners send at
the same time. What is not in the model: learners that wait for a slower one, and networks in which
messages of different learners share a cable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MAX_LEARNERS = 256


class Traffic(NamedTuple):
    """What a learner exchanges in an iteration.

    Attributes:
      sums: Number of arrays that are summed.
      summed: Bytes of all of them.
      gathers: Number of arrays that are gathered.
      gathered: Bytes of this learner's.
    """

    sums: float
    summed: float
    gathers: float = 0.0
    gathered: float = 0.0


class Network(NamedTuple):
    """What messages take.

    Attributes:
      latency: Seconds of a message without any bytes.
      seconds_per_byte: Seconds of a byte.
    """

    latency: float
    seconds_per_byte: float

    def behind(self, delay: float, rate: float) -> Network:
        """The same with a delay in seconds, and with a limit in bytes per second."""
        return Network(self.latency + delay, self.seconds_per_byte + 1.0 / rate)


def messages(traffic: Traffic, num_learners: int) -> tuple[float, float]:
    """Number of messages that a learner sends one after another, and their bytes."""
    others = num_learners - 1
    number = 2 * others * traffic.sums + others * traffic.gathers
    num_bytes = 2 * others / num_learners * traffic.summed + others * traffic.gathered
    return number, num_bytes


def communication_seconds(traffic: Traffic, num_learners: int, network: Network) -> float:
    """Seconds of an iteration that learners spend on communication."""
    number, num_bytes = messages(traffic, num_learners)
    return number * network.latency + num_bytes * network.seconds_per_byte


def communication_share(
    computing: float, traffic: Traffic, num_learners: int, network: Network
) -> float:
    """Part of an iteration that is communication, given the seconds of the rest of it."""
    communicating = communication_seconds(traffic, num_learners, network)
    return communicating / (computing + communicating)


def learners_at_share(
    computing: float, traffic: Traffic, network: Network, share: float
) -> int | None:
    """The smallest number of learners with at least this share; None beyond `MAX_LEARNERS`."""
    for number in range(2, MAX_LEARNERS + 1):
        if communication_share(computing, traffic, number, network) >= share:
            return number
    return None


def fit(seconds: Mapping[int, float]) -> Network:
    """The constants of the loopback interface.

    Args:
      seconds: Of one sum of two learners, by the bytes of the array.

    Returns:
      The line through the smallest and the largest array.
    """
    traffic = Traffic(sums=1, summed=1)
    number, bytes_per_byte = messages(traffic, num_learners=2)
    small, large = min(seconds), max(seconds)
    slope = (seconds[large] - seconds[small]) / (large - small)
    intercept = seconds[small] - slope * small
    return Network(intercept / number, slope / bytes_per_byte)
