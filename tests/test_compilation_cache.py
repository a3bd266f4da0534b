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
from agents.compilation_cache import CompilationCache, find_cache
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


def start(root):
    names = (compilation_cache.VARIABLE, "TF_CPP_MIN_LOG_LEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.Popen(
        [sys.executable, "-c", CODE],
        cwd=ROOT,
        env={**environment, compilation_cache.VARIABLE: str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(root):
    with start(root) as process:
        stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(CODE, process.returncode, stdout, stderr)


def age(path, seconds):
    os.utime(path, (time.time() - seconds,) * 2)


@pytest.fixture
def cache(tmp_path):
    return CompilationCache(tmp_path / "cache")


def sealed(program):
    """The file of a program: its checksum, and the program."""
    return hashlib.sha256(program).hexdigest().encode() + b"\n" + program


def names(cache):
    return sorted(path.name for path in cache.folder.iterdir())


def test_tensorflow_starts_silently_and_a_program_is_compiled_once(tmp_path):
    cold = run(tmp_path)
    assert cold.returncode == 0 and cold.stdout.startswith("3 3\n"), cold.stderr
    [program] = tmp_path.glob("*/*.pb")
    compiled = program.stat().st_mtime_ns
    warm = run(tmp_path)
    assert (warm.returncode, warm.stdout) == (0, cold.stdout)
    assert cold.stderr == warm.stderr == "E0000 what matters\n"  # No message about loading.
    assert program.stat().st_mtime_ns == compiled
    # One that is forged, with its checksum, is loaded, too.
    program.write_bytes(sealed(program.read_bytes().partition(b"\n")[2][:-1000]))
    assert run(tmp_path).returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["processes", "TensorFlow environments", "recurrent"])
def test_a_training_that_loads_programs_ends_in_the_same_numbers(name, tmp_path, monkeypatch):
    monkeypatch.setenv(compilation_cache.VARIABLE, str(tmp_path))
    lines = []
    assert end_in_equal_numbers(ROOT, ROOT, lines.append, {name: TRAININGS[name]}), lines
    assert len(list(tmp_path.glob("*/*.pb"))) > 1


@pytest.mark.slow
def test_processes_that_start_at_once_share_a_folder(tmp_path):
    for _ in range(3):
        processes = [start(tmp_path) for _ in range(6)]
        results = [(*process.communicate(), process.returncode) for process in processes]
        assert len(set(results)) == 1 and results[0][2] == 0, results
        [program] = tmp_path.glob("*/*.pb")
        program.write_bytes(b"")  # Which the next ones compile again.


@pytest.fixture
def loaded(monkeypatch):
    """What is in TensorFlow's memory."""
    monkeypatch.setattr(compilation_cache, "MEMORY", "ram://agents/test")
    yield lambda: tf.io.gfile.listdir("ram://agents/test")
    tf.io.gfile.rmtree("ram://agents/test")


def test_damaged_and_unfinished_programs_are_removed(cache, loaded):
    whole = sealed(b"code")
    files = {
        "whole.pb": whole,
        "damaged.pb": whole.replace(b"code", b"cOde"),
        "truncated.pb": whole[:-1],
        "empty.pb": b"",
        "unsealed.pb": b"code",
        "now.pb.unfinished": whole[:10],
        "long_ago.pb.unfinished": whole[:10],
    }
    for name, content in files.items():
        (cache.folder / name).write_bytes(content)
    age(cache.folder / "long_ago.pb.unfinished", 3600)
    cache.load()
    assert names(cache) == ["now.pb.unfinished", "whole.pb"] and loaded() == ["whole.pb"]


def test_the_oldest_programs_are_removed(cache, loaded, monkeypatch):
    monkeypatch.setattr(compilation_cache, "MAX_BYTES", 10)
    for index, name in enumerate("abc"):
        (cache.folder / name).write_bytes(sealed(b"code"))
        age(cache.folder / name, 100 - index)
    cache.load()
    assert names(cache) == sorted(loaded()) == ["b", "c"]


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
    fault, tmp_path, request, loaded, monkeypatch
):
    on_disk = fault in (make_read_only, fill)
    root = request.getfixturevalue("small_disk") if on_disk else tmp_path
    monkeypatch.setattr(compilation_cache, "MIN_FREE_BYTES", 0)
    cache = CompilationCache(root / "cache")
    cache.load()
    for name in "ab":
        with tf.io.gfile.GFile(f"{compilation_cache.MEMORY}/{name}.pb", "wb") as file:
            file.write(bytes(20_000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    fault(cache.folder)
    try:
        with pytest.warns(UserWarning, match="Compiled programs can't be kept in") as issued:
            cache.store()
            cache.store()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(issued) == 1 and not list(root.glob("*/*.pb*"))


def test_little_space_is_left_to_others(cache, loaded, monkeypatch):
    monkeypatch.setattr(compilation_cache, "MIN_FREE_BYTES", 2**62)
    cache.load()
    with tf.io.gfile.GFile(f"{compilation_cache.MEMORY}/a.pb", "wb") as file:
        file.write(b"code")
    cache.store()
    assert names(cache) == []


def test_each_machine_thread_count_and_choice_of_flags_has_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(compilation_cache.VARIABLE, str(tmp_path))
    folders = [find_cache(threads).folder for threads in (1, 2, 1)]
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    folders.append(find_cache(1).folder)
    assert folders[0] == folders[2] and len(set(folders)) == 3
    assert {folder.parent for folder in folders} == {tmp_path}
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


def test_no_cache_is_kept_where_it_should_not_be(tmp_path, monkeypatch):
    def choose(folder):
        monkeypatch.setenv(compilation_cache.VARIABLE, str(folder))
        return find_cache(1)

    assert choose("off") is None
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match=r"can't be kept in .*file \(Not a directory\)"):
        assert choose(tmp_path / "file") is None
    shared = choose(tmp_path / "shared").folder
    shared.chmod(0o777)
    with pytest.warns(UserWarning, match="others than this user may write there"):
        assert choose(tmp_path / "shared") is None
    monkeypatch.setenv("XLA_FLAGS", str(tmp_path / "file"))  # Flags in a file may change.
    assert choose(tmp_path / "own") is None
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setenv("TF_XLA_FLAGS", f"--tf_xla_persistent_cache_directory={tmp_path}")
    assert choose(tmp_path / "own") is None
    assert not (tmp_path / "own").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give folders away")
def test_another_users_home_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.delenv(compilation_cache.VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_cache(1).folder.parent == tmp_path / ".cache" / "agents" / "xla"
    os.chown(tmp_path, 65534, 65534)
    assert find_cache(1) is None
