"""Overlapping iterations: the next rollout is collected while the last one is learned from."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import tensorflow as tf

from agents.graph.transition import Rollout
from agents.runtime.graph_calls import GraphCalls
from agents.training.iteration import Iteration


class Overlap:
    """Collects and learns in two graph calls at the same time.

    While an update runs, the next rollout is collected with the policy from before it, as in Cleanba
    (Huang et al., 2023, arXiv 2310.00036). That rollout is then learned from by a policy that is one
    update ahead of the one that acted: always exactly one, however long either takes, so that equal
    seeds give equal runs. Only where nothing was learned beside it, at first and after `forget`, is
    a rollout learned from by the policy that acted.
    """

    def __init__(
        self,
        hand_over: Callable[[], object],
        collect: Callable[[], Rollout],
        learn: Callable[[Rollout], Iteration],
        is_last: Callable[[], bool],
        convolves: bool,
    ):
        """Starts without a rollout.

        Args:
          hand_over: Graph call between rollouts, see `Algorithm.hand_over`.
          collect: Graph call that collects a rollout.
          learn: Graph call that learns from a rollout.
          is_last: Whether no rollout follows the one that is learned from next, or one of new
            episodes.
          convolves: Whether networks have convolutions, see `GraphCalls`.
        """
        self._hand_over, self._collect, self._learn = hand_over, collect, learn
        self._graph_calls = GraphCalls(convolves)
        self._is_last = is_last
        self._thread = ThreadPoolExecutor(1, "learning")
        self._rollout: Rollout | None = None  # Not learned from yet.
        self._learning: Future[Iteration] | None = None

    def iterate(self) -> Iteration:
        """Learns from a rollout while the calling thread collects the next one.

        What the environments raise is raised once the update has ended.
        """
        collects_next = not self._is_last()
        if self._rollout is None:
            self._hand_over()
            self._rollout = self._collect()
        self._hand_over()
        rollout, self._rollout, collected = self._rollout, None, time.time()
        is_first = self._learning is None
        self._learning = self._thread.submit(self._learn_in_thread, rollout)
        if is_first:  # Programs are compiled, or loaded, by one thread at a time.
            self.wait()
        try:
            if collects_next:
                self._rollout = self._collect()
                collected = time.time()
        finally:
            results = self._learning.result()
        return results._replace(collected=tf.constant(collected, tf.float64))

    def forget(self) -> None:
        """Forgets the rollout that was not learned from yet, if there is one."""
        self._rollout = None

    def wait(self) -> None:
        """Waits for the end of an update that is running; its errors are those of `iterate`."""
        wait([self._learning] if self._learning else [])

    def _learn_in_thread(self, rollout: Rollout) -> Iteration:
        with self._graph_calls:  # The context of the other thread does not reach this one.
            return self._learn(rollout)
