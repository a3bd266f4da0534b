import contextlib
import ctypes

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from agents.runtime import compilation_cache
from agents.runtime.compilation_cache import CompilationCache
from agents.runtime.graph_calls import GraphCalls

LOADING = b"E0000 cpu_aot_loader.cc:2] Target machine feature +prefer-no-gather is not supported\n"


def executor():
    return context.context().function_call_options.executor_type


def write_from_c(message):
    library = ctypes.CDLL(None)
    library.fputs(message, ctypes.c_void_p.in_dll(library, "stderr"))


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


def test_the_first_call_keeps_its_programs_and_drops_messages_of_loading(
    tmp_path, monkeypatch, capfd
):
    cache = CompilationCache(tmp_path / "cache")
    monkeypatch.setattr(compilation_cache, "in_use", cache)
    cache.load()
    calls = GraphCalls(convolves=False)
    for name in ("first", "second"):
        with calls:
            path = f"{compilation_cache.MEMORY}/{name}.pb"
            with tf.io.gfile.GFile(path, "wb") as program:
                program.write(b"code")
            write_from_c(LOADING)
    for name in ("first", "second"):
        tf.io.gfile.remove(f"{compilation_cache.MEMORY}/{name}.pb")
    assert [path.name for path in cache.folder.glob("*.sha256")] == ["first.pb.sha256"]
    assert capfd.readouterr().err == LOADING.decode()  # Of the second call.
