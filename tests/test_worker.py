import itertools
import os
import re
import signal
import subprocess
import sys

import cloudpickle
import gymnasium
import pytest

from agents.tools.errors import EnvironmentRaisedError
from agents.tools.external_process import ExternalProcess
from agents.tools.mock_environment import MockEnvironment

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Introspective(MockEnvironment):
    """Tells about the process that it lives in."""

    def __init__(self):
        super().__init__((2,), (1,), 5, 5)

    def modules(self):
        return sorted({name.partition(".")[0] for name in sys.modules})

    def main(self):
        return vars(sys.modules["__main__"]).get("__file__")

    def variables(self, *names):
        return [os.environ.get(name) for name in names]

    def numbered(self, number):
        return number


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
    assert any("multiarray" in library for library in libraries)  # That we look at the right thing: numpy is there.
    assert not [library for library in libraries if "tensorflow" in library.lower()]
    modules = process.call("modules")
    assert {"numpy", "gymnasium", "agents"} <= set(modules)
    assert not {"tensorflow", "keras", "tensorboard", "pydantic", "matplotlib"} & set(modules)


def test_a_worker_does_not_import_main_and_keeps_to_one_thread(process):
    assert process.call("main") is None
    assert process.call("variables", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") == ["1", "1"]
    assert len(os.listdir(f"/proc/{process.pid}/task")) == 1


def test_the_users_choice_of_threads_counts(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    process = ExternalProcess(Introspective)
    assert process.call("variables", "OMP_NUM_THREADS") == ["3"]
    process.close()


def test_a_worker_does_not_keep_the_files_of_another(process):
    other = ExternalProcess(Introspective)
    targets = [os.readlink(f"/proc/{pid}/fd/{fd}") for pid in (process.pid, other.pid) for fd in fds(pid)]
    sockets = [target for target in targets if target.startswith("socket:")]
    assert len(sockets) == len(set(sockets)) == 4
    other.close()


def fds(pid):
    return os.listdir(f"/proc/{pid}/fd")


def test_turns_are_told_apart_over_many_calls(process):
    for number in range(300):
        promises = [process.call("numbered", (number, i), blocking=False) for i in range(number % 3)]
        assert process.call("numbered", number) == number
        assert len(promises) == number % 3


def test_a_constructor_that_the_worker_cannot_import(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("import gymnasium\ndef make():\n    return gymnasium.make('CartPole-v1')\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    made = ExternalProcess(only_here.make)  # The worker searches where the parent does,
    made.close()
    monkeypatch.undo()
    with pytest.raises(EnvironmentRaisedError, match="No module named 'only_here'") as caught:
        ExternalProcess(only_here.make)  # and says what it can't find.
    assert caught.value.type_name == "ModuleNotFoundError"


def test_a_worker_whose_parent_is_already_gone_ends_at_once():
    code = "from agents.tools import worker; worker.main(parent=0, line=-1, bell=-1, messages=-1)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (answer.stderr, answer.returncode) == ("", 0)


def test_a_worker_ignores_interrupts_from_its_first_moment_on():
    process = ExternalProcess(Introspective, blocking=False)
    os.kill(process.pid, signal.SIGINT)
    process.wait_until_ready()
    os.kill(process.pid, signal.SIGINT)
    process.reset()
    process.close()
    assert process._process.returncode == 0


def test_closes_its_environments_when_the_parent_ends_without_closing_it(tmp_path):
    # On Linux a worker ends with its parent at once; what is tried here is the channel's end, which works everywhere.
    log = tmp_path / "log"

    class Env(Introspective):
        def close(self):
            log.write_text("closed")

    process = ExternalProcess(Env)
    process._channel.close()
    process._process.wait(10)
    assert (log.read_text(), process._process.returncode) == ("closed", 0)
    process.close()


def test_what_an_environment_prints_and_warns_is_seen(tmp_path):
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
    answer = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
    assert answer.stdout == "hello from the worker\n"
    assert "UserWarning: careful" in answer.stderr


def test_two_threads_may_each_have_a_worker():
    import threading

    results = []

    def use(number):
        process = ExternalProcess(Introspective)
        results.append([process.call("numbered", i) == i for i in itertools.chain([number], range(50))])
        process.close()

    threads = [threading.Thread(target=use, args=[number]) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2 and all(map(all, results))


def test_a_registered_environment_travels_as_its_specification():
    class Registered(MockEnvironment):
        def __init__(self, size):
            super().__init__((size,), (1,), 5, 5)

    gymnasium.register("Registered-v0", Registered, kwargs={"size": 3}, disable_env_checker=True)
    try:
        spec = gymnasium.spec("Registered-v0")
        process = ExternalProcess(lambda: gymnasium.make(spec))
        assert process.reset()[0].shape == (3,)
        process.close()
    finally:
        del gymnasium.registry["Registered-v0"]
