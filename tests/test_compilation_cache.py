import hashlib
import os
import resource
import shutil
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from agents import compilation_cache
from agents.compilation_cache import MEMORY, VARIABLE, CompilationCache, find_cache
from benchmarks.other_checkout import TRAININGS, end_in_equal_numbers
from benchmarks.runner import ROOT
from tests.runs.conftest import small_disk  # noqa: F401 - A fixture.

# Compiles a program, and says what it computes.
CODE = """
import ctypes
from agents.graph.graph_calls import GraphCalls
from agents.tensorflow_setup import start_tensorflow
start_tensorflow(3)
import tensorflow as tf
threads = tf.config.threading
print(threads.get_intra_op_parallelism_threads(), threads.get_inter_op_parallelism_threads())
calls = GraphCalls(convolves=False)
with calls:
    loop = lambda x: tf.while_loop(lambda x: True, lambda x: [tf.tanh(x @ x) + 0.1], [x], maximum_iterations=9)
    result = tf.function(loop, jit_compile=True)(tf.linspace(tf.zeros([8]), 1.0, 8))
    print(float(tf.reduce_sum(result[0])).hex(), flush=True)
    stderr = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stderr")
    ctypes.CDLL(None).fputs(b"E0000 what matters\\n", stderr)
"""


def run(root, num_processes=1):
    """Starts processes at once; returns the distinct results: exit code, output, messages."""
    environment = {name: os.environ[name] for name in os.environ if name != "TF_CPP_MIN_LOG_LEVEL"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CODE],
            cwd=ROOT,
            env={**environment, VARIABLE: str(root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(num_processes)
    ]
    outputs = [process.communicate() for process in processes]
    codes = [process.returncode for process in processes]
    return {(code, *output) for code, output in zip(codes, outputs, strict=True)}


@pytest.fixture
def cache(tmp_path):
    return CompilationCache(tmp_path / "cache")


def sealed(program):
    """The file of a program: its checksum, and the program."""
    return hashlib.sha256(program).hexdigest().encode() + b"\n" + program


def names(cache):
    return sorted(path.name for path in cache.folder.iterdir())


def test_tensorflow_starts_silently_and_a_program_is_compiled_once(tmp_path):
    [(code, output, messages)] = run(tmp_path)
    assert code == 0 and output.startswith("3 3\n"), messages
    assert messages == "E0000 what matters\n"  # No message about loading.
    [program] = tmp_path.glob("*/*.pb")
    compiled = program.stat().st_mtime_ns
    assert run(tmp_path) == {(0, output, messages)}
    assert program.stat().st_mtime_ns == compiled
    # A program with a forged checksum is loaded as well.
    program.write_bytes(sealed(program.read_bytes().partition(b"\n")[2][:-1000]))
    assert [code for code, *_ in run(tmp_path)] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["processes", "TensorFlow environments", "recurrent"])
def test_a_training_that_loads_programs_ends_in_the_same_numbers(name, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    lines = []
    assert end_in_equal_numbers(ROOT, ROOT, lines.append, {name: TRAININGS[name]}), lines
    assert len(list(tmp_path.glob("*/*.pb"))) > 1


@pytest.mark.slow
def test_processes_that_start_at_once_share_a_folder(tmp_path):
    for _ in range(3):
        [(code, _, messages)] = run(tmp_path, 6)
        assert code == 0, messages
        [program] = tmp_path.glob("*/*.pb")
        program.write_bytes(b"")  # Which the next ones compile again.


@pytest.fixture
def memory(monkeypatch):
    """Name of TensorFlow's folder in memory, of this test alone."""
    monkeypatch.setattr(compilation_cache, "MEMORY", f"{MEMORY}-test")
    yield f"{MEMORY}-test"
    tf.io.gfile.rmtree(f"{MEMORY}-test")


def test_damaged_unfinished_and_the_oldest_programs_are_removed(cache, memory, monkeypatch):
    monkeypatch.setattr(compilation_cache, "MAX_BYTES", 18)
    whole = sealed(b"code")
    files = {
        "whole.pb": whole,
        "older.pb": whole,
        "oldest.pb": whole,
        "damaged.pb": whole.replace(b"code", b"cOde"),
        "truncated.pb": whole[:-1],
        "empty.pb": b"",
        "unsealed.pb": b"code",
        "now.pb.unfinished": whole[:10],
        "long_ago.pb.unfinished": whole[:10],
    }
    ages = {"older.pb": 100, "oldest.pb": 4000, "long_ago.pb.unfinished": 3600}
    for name, content in files.items():
        (cache.folder / name).write_bytes(content)
        os.utime(cache.folder / name, (time.time() - ages.get(name, 0),) * 2)
    cache.load()
    assert names(cache) == ["now.pb.unfinished", "older.pb", "whole.pb"]
    assert sorted(tf.io.gfile.listdir(memory)) == ["older.pb", "whole.pb"]


def remove(folder):
    shutil.rmtree(folder)


def replace(folder):
    shutil.rmtree(folder)
    folder.touch()


def limit_size(folder):
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))


def make_read_only(folder):
    subprocess.run(["mount", "-o", "remount,ro", folder.parent], check=True)


def fill(folder):
    status = os.statvfs(folder)
    (folder.parent / "rest").write_bytes(bytes(status.f_bavail * status.f_bsize - 8192))


@pytest.mark.parametrize("fault", [remove, replace, limit_size, make_read_only, fill])
def test_a_folder_that_cannot_be_written_costs_one_warning(
    fault, tmp_path, request, memory, monkeypatch
):
    on_disk = fault in (make_read_only, fill)
    root = request.getfixturevalue("small_disk") if on_disk else tmp_path
    cache = CompilationCache(root / "cache")
    cache.load()
    for name in "ab":
        with tf.io.gfile.GFile(f"{memory}/{name}.pb", "wb") as file:
            file.write(bytes(20_000))
    monkeypatch.setattr(compilation_cache, "MIN_FREE_BYTES", 2**62)
    cache.store()  # Little space is left to others.
    assert names(cache) == []
    monkeypatch.setattr(compilation_cache, "MIN_FREE_BYTES", 0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    fault(cache.folder)
    try:
        with pytest.warns(UserWarning, match="Compiled programs can't be kept in") as issued:
            cache.store()
            cache.store()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(issued) == 1 and not list(root.glob("*/*.pb*"))


def test_each_machine_thread_count_and_choice_of_flags_has_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    folders = [find_cache(threads).folder for threads in (1, 2, 1)]
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    folders.append(find_cache(1).folder)
    assert folders[0] == folders[2] and len(set(folders)) == 3
    assert {folder.parent for folder in folders} == {tmp_path}
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


def test_no_cache_is_kept_where_it_should_not_be(tmp_path, monkeypatch):
    def choose(folder):
        monkeypatch.setenv(VARIABLE, str(folder))
        return find_cache(1)

    assert choose("off") is None
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match=r"can't be kept in .*file \(Not a directory\)"):
        assert choose(tmp_path / "file") is None
    choose(tmp_path / "shared").folder.chmod(0o777)
    with pytest.warns(UserWarning, match="others than this user may write there"):
        assert choose(tmp_path / "shared") is None
    # Flags in a file may change, and users may choose another cache.
    chosen = {"XLA_FLAGS": "file", "TF_XLA_FLAGS": "--tf_xla_persistent_cache_directory=/there"}
    for name, flags in chosen.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, flags)
            assert choose(tmp_path / "own") is None
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("variable", [VARIABLE, "XDG_CACHE_HOME"])
def test_a_relative_folder_lies_where_the_process_started(variable, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv(variable, "cache")
    monkeypatch.setattr(compilation_cache, "_STARTED_IN", tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").rmdir()
    assert find_cache(1).folder.is_relative_to(tmp_path / "cache")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give folders away")
def test_another_users_home_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_cache(1).folder.parent == tmp_path / ".cache" / "agents" / "xla"
    os.chown(tmp_path, 65534, 65534)
    assert find_cache(1) is None
