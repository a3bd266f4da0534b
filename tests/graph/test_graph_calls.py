import contextlib

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from agents import compilation_cache
from agents.compilation_cache import CompilationCache
from agents.graph.graph_calls import GraphCalls


def executor():
    return context.context().function_call_options.executor_type


@pytest.mark.parametrize(
    ("convolves", "expected"), [(False, "SINGLE_THREADED_EXECUTOR"), (True, "")]
)
def test_small_operations_run_in_one_thread_unless_there_are_convolutions(convolves, expected):
    before, calls = executor(), GraphCalls(convolves)
    for _ in range(2):
        with contextlib.suppress(tf.errors.InvalidArgumentError), calls:
            assert executor() == expected
            raise tf.errors.InvalidArgumentError(None, None, "a failing call")
        assert executor() == before


def test_the_first_call_keeps_its_programs(tmp_path, monkeypatch):
    cache = CompilationCache(tmp_path / "cache")
    monkeypatch.setattr(compilation_cache, "in_use", cache)
    cache.load()
    calls = GraphCalls(convolves=False)
    for name in ("first", "second"):
        with calls:
            path = f"{compilation_cache.MEMORY}/{name}.pb"
            with tf.io.gfile.GFile(path, "wb") as program:
                program.write(b"code")
    for name in ("first", "second"):
        tf.io.gfile.remove(f"{compilation_cache.MEMORY}/{name}.pb")
    assert [path.name for path in cache.folder.iterdir()] == ["first.pb"]
