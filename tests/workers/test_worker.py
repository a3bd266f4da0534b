import os
import re
import subprocess
import sys
import threading

import cloudpickle
import pytest

from agents.environments.mock_environment import MockEnvironment
from agents.errors import EnvironmentRaisedError
from agents.workers.external_process import ExternalProcess

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Introspective(MockEnvironment):
    """Reports on its process."""

    def __init__(self):
        super().__init__((2,), (1,), 5, 5)

    def modules(self):
        return sorted({name.partition(".")[0] for name in sys.modules})

    def main(self):
        return vars(sys.modules["__main__"]).get("__file__")

    def variables(self, *names):
        return [os.environ.get(name) for name in names]

    def echo(self, value):
        return value


@pytest.fixture(scope="module")
def process():
    process = ExternalProcess(Introspective)
    yield process
    process.close()


def test_a_worker_has_no_tensorflow_in_its_memory(process):
    process.reset()
    process.step(process.action_space.sample())
    with open(f"/proc/{process.pid}/maps") as file:
        libraries = {os.path.basename(path) for path in re.findall(r"/\S+\.so\S*", file.read())}
    assert any(
        "multiarray" in library for library in libraries
    )  # So these are the worker's libraries.
    assert not [library for library in libraries if "tensorflow" in library.lower()]
    modules = process.call("modules")
    assert {"numpy", "gymnasium", "agents"} <= set(modules)
    assert not {"tensorflow", "keras", "tensorboard", "pydantic", "matplotlib"} & set(modules)


def test_a_worker_does_not_import_main_and_keeps_to_one_thread(process):
    assert process.call("main") is None
    assert process.call("variables", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") == ["1", "1"]
    assert len(os.listdir(f"/proc/{process.pid}/task")) == 1


def test_the_users_number_of_threads_is_kept(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    process = ExternalProcess(Introspective)
    assert process.call("variables", "OMP_NUM_THREADS") == ["3"]
    process.close()


def test_a_worker_does_not_inherit_the_sockets_of_another(process):
    other = ExternalProcess(Introspective)
    targets = [
        os.readlink(f"/proc/{pid}/fd/{fd}") for pid in (process.pid, other.pid) for fd in fds(pid)
    ]
    sockets = [target for target in targets if target.startswith("socket:")]
    assert len(sockets) == len(set(sockets)) == 4
    other.close()


def fds(pid):
    return os.listdir(f"/proc/{pid}/fd")


def test_a_constructor_that_the_worker_cannot_import(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text(
        "import gymnasium\ndef make():\n    return gymnasium.make('CartPole-v1')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    ExternalProcess(only_here.make).close()  # The worker has the parent's path,
    monkeypatch.undo()
    with pytest.raises(EnvironmentRaisedError, match="No module named 'only_here'") as caught:
        ExternalProcess(only_here.make)  # and reports what it can't find.
    assert caught.value.type_name == "ModuleNotFoundError"


def test_a_worker_whose_parent_is_gone_ends_immediately():
    code = "from agents.workers.reaper import guard; guard(0); print('alive')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_threads_may_start_workers_which_outlive_them():
    processes = []

    def start():
        processes.append(ExternalProcess(Introspective))

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results = [[one.call("echo", value) for one in processes] for value in range(50)]
    assert results == [[value, value] for value in range(50)]
    for one in processes:
        one.close()


def test_output_and_warnings_of_an_environment_are_shown(tmp_path):
    script = """
import sys, warnings
import gymnasium
from agents.tools import ExternalProcess

def constructor():
    print("hello from the worker", flush=True)
    warnings.warn("careful")
    return gymnasium.make("CartPole-v1")

process = ExternalProcess(constructor)
process.close()
"""
    path = tmp_path / "script.py"
    path.write_text(script)
    result = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
    assert result.stdout == "hello from the worker\n"
    assert result.stderr == "warning: careful\n"
