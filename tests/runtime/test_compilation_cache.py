import hashlib
import os
import subprocess
import sys
import time

import pytest

from agents.runtime import compilation_cache
from agents.runtime.compilation_cache import CompilationCache, find_cache
from benchmarks.other_checkout import TRAININGS, end_in_equal_numbers
from benchmarks.runner import ROOT
from tests.storage.conftest import small_disk  # noqa: F401 - A fixture.

# Compiles a program, and says what it computes and where it may lie.
CODE = """
import ctypes
from agents.runtime.graph_calls import GraphCalls
from agents.runtime import compilation_cache
from agents.runtime.tensorflow_setup import start_tensorflow
start_tensorflow(1)
import tensorflow as tf
folder = getattr(compilation_cache.in_use, "folder", None)
{}
calls = GraphCalls(convolves=False)
with calls:
    loop = lambda x: tf.while_loop(lambda x: True, lambda x: [tf.tanh(x @ x) + 0.1], [x], maximum_iterations=9)
    result = tf.function(loop, jit_compile=True)(tf.linspace(tf.zeros([8]), 1.0, 8))
    print(float(tf.reduce_sum(result[0])).hex(), flush=True)
    stderr = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stderr")
    ctypes.CDLL(None).fputs(b"E0000 what matters\\n", stderr)
"""


def start(root, fault=""):
    names = (compilation_cache.VARIABLE, "TF_CPP_MIN_LOG_LEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.Popen(
        [sys.executable, "-c", CODE.format(fault)],
        cwd=ROOT,
        env={**environment, compilation_cache.VARIABLE: str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(root, fault=""):
    with start(root, fault) as process:
        stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(CODE, process.returncode, stdout, stderr)


def age(path, seconds):
    os.utime(path, (time.time() - seconds,) * 2)


@pytest.fixture
def cache(tmp_path):
    return CompilationCache(tmp_path / "cache")


def add(cache, name, content=b"code", seal=True):
    path = cache.folder / f"{name}.pb"
    path.write_bytes(content)
    if seal:
        seal_program(path)
    return path


def seal_program(path):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{digest}\n")


def names(cache):
    return sorted(path.name for path in cache.folder.iterdir())


def test_a_program_is_compiled_once_and_loaded_without_a_message(tmp_path):
    cold = run(tmp_path)
    assert cold.returncode == 0, cold.stderr
    [program] = tmp_path.glob("*/*.pb")
    compiled = program.stat().st_mtime_ns
    warm = run(tmp_path)
    assert (warm.returncode, warm.stdout) == (0, cold.stdout)
    assert cold.stderr == warm.stderr == "E0000 what matters\n"  # Which is not of loading.
    assert program.stat().st_mtime_ns == compiled
    # One that is forged, with its checksum, is loaded, too.
    program.write_bytes(program.read_bytes()[:-1000])
    seal_program(program)
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


def test_a_full_disk_is_no_failure(small_disk):  # noqa: F811
    process = run(small_disk)
    assert process.returncode == 0, process.stderr
    assert not list(small_disk.glob("*/*.pb"))


def test_damaged_unfinished_and_forgotten_files_are_removed(cache):
    whole = add(cache, "whole")
    add(cache, "new", seal=False)
    damaged, truncated, unsealed = add(cache, "damaged"), add(cache, "truncated"), add(cache, "old")
    damaged.write_bytes(b"cOde")
    truncated.write_bytes(b"")
    unsealed.with_name("old.pb.sha256").unlink()
    age(unsealed, 3600)
    for name, seconds in (
        ("a.pbhost-1.tmp", 3600),
        ("b.pbhost-2.tmp", 1),
        ("lost.pb.sha256", 3600),
    ):
        (cache.folder / name).touch()
        age(cache.folder / name, seconds)
    cache.clean()
    assert names(cache) == ["b.pbhost-2.tmp", "new.pb", whole.name, f"{whole.name}.sha256"]


def test_the_oldest_programs_are_removed(cache, monkeypatch):
    monkeypatch.setattr(compilation_cache, "MAX_BYTES", 10)
    for index, name in enumerate("abc"):
        age(add(cache, name), 100 - index)
    cache.clean()
    assert names(cache) == ["b.pb", "b.pb.sha256", "c.pb", "c.pb.sha256"]


FAULTS = {
    "file size limit": "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))",
    "removed": "import shutil; shutil.rmtree(folder)",
    "a file in its place": "import shutil; shutil.rmtree(folder); folder.touch()",
    "read-only": "import subprocess; mount = ['mount', '-o', 'remount,ro', folder.parent]\n"
    "compilation_cache.MIN_FREE_BYTES = 0; subprocess.run(mount, check=True)",
    "full": "compilation_cache.MIN_FREE_BYTES = 0; (folder.parent / 'rest').touch()\n"
    "os = __import__('os'); size = os.statvfs(folder); size = size.f_bavail * size.f_bsize\n"
    "(folder.parent / 'rest').write_bytes(bytes(size - 8192))",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_folder_that_cannot_be_written_costs_one_warning(fault, tmp_path, request):
    on_disk = fault in ("read-only", "full")
    root = request.getfixturevalue("small_disk") if on_disk else tmp_path
    process = run(root, FAULTS[fault])
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("0x1.")
    lines = [line for line in process.stderr.splitlines() if "warning" in line.lower()]
    assert len(lines) == 1 and "Compiled programs can't be kept" in lines[0], process.stderr
    assert not list(root.glob("*/*.pb*"))


def test_a_folder_that_cannot_be_made_costs_one_warning(tmp_path):
    (tmp_path / "file").touch()
    process = run(tmp_path / "file")
    assert process.returncode == 0, process.stderr
    assert process.stderr.count("Compiled programs can't be kept") == 1, process.stderr


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
