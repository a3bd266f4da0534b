"""The context of graph calls: their executor, and where their programs are kept."""

from __future__ import annotations

import contextlib
from types import TracebackType

from agents import compilation_cache


class GraphCalls:
    """Context of graph calls of one kind, in which small operations run one by one in one thread.

    Scheduling an operation in a thread pool takes as long as a small operation itself. Large ones
    are still divided among TensorFlow's threads; a compiled program is a single operation.

    In the first call programs are compiled, or loaded.
    """

    def __init__(self, convolves: bool):
        """Chooses an executor.

        Args:
          convolves: Whether the graph has convolutions. It then keeps TensorFlow's default
            executor: the single-threaded one excludes oneDNN's operations from loops, without which
            convolutions take longer, in bfloat16 ten times as long.
        """
        self._executor = "" if convolves else "SINGLE_THREADED_EXECUTOR"
        self._stack = contextlib.ExitStack()
        self._is_first = True

    def __enter__(self) -> None:
        """Begins a call."""
        import tensorflow as tf

        cache = compilation_cache.in_use
        if self._is_first and cache:
            self._stack.callback(cache.store)
        self._is_first = False
        self._stack.enter_context(tf.experimental.function_executor_type(self._executor))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends a call."""
        self._stack.close()
