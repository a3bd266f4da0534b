import contextlib
import gc
import os
import pathlib
import signal
import subprocess
import sys
import time
import weakref

import cloudpickle
import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import strategies

from agents.tools.errors import EnvironmentRaisedError, UnsupportedSpaceError, WorkerDiedError, WorkerTimeoutError
from agents.tools.external_process import ExternalProcess
from agents.tools.mock_environment import MockEnvironment

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Playground(gymnasium.Env):
    """Observes its step count; the action says what happens."""

    observation_space = spaces.Box(0, 1e6, (2,), np.float64)
    action_space = spaces.Discrete(100)
    END, RAISE, EXIT, HANG, NAP, DIE, FORK_AND_DIE = range(1, 8)

    def __init__(self, name="one", log=None):
        self.name, self.log, self._secret = name, log, "hidden"
        self.count = 0

    def observe(self):
        return np.full(2, self.count, np.float64)

    def reset(self, *, seed=None, options=None):
        if options and "raise" in options:
            raise KeyError("bad option")
        self.count = 0
        return self.observe(), {"seed": seed, "options": options, "name": self.name}

    def step(self, action):
        self.count += 1
        if action == self.RAISE:
            raise ValueError(f"the {self.count}. step went wrong")
        if action == self.EXIT:
            sys.exit(3)
        if action == self.HANG:
            time.sleep(60)
        if action == self.NAP:
            time.sleep(0.5)
        if action == self.DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == self.FORK_AND_DIE:
            if os.fork() == 0:
                time.sleep(5)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return self.observe(), self.count / 4, bool(action == self.END), False, {"action": action}

    def add(self, one, two=0):
        return one + two

    def complain(self):
        raise LookupError("nothing there")

    def generator(self):
        return (i for i in range(3))

    def large(self, size):
        return bytes(size)

    def nap(self, seconds, result):
        time.sleep(seconds)
        return result

    @property
    def broken(self):
        raise ValueError("broken property")

    def close(self):
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{self.name} closed\n")


@contextlib.contextmanager
def hosting(constructor, **kwargs):
    process = ExternalProcess(constructor, **kwargs)
    try:
        yield process
    finally:
        process.close()


@contextlib.contextmanager
def taking_less_than(seconds):
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def one():
    """A process with one environment that stays usable; tests of failures that end it make their own."""
    with hosting(Playground, timeout=20) as process:
        yield process


@pytest.fixture(scope="module")
def three():
    """A process with three environments."""
    constructors = [lambda name=name: gymnasium.wrappers.TimeLimit(Playground(name), 50) for name in "abc"]
    with hosting(constructors, timeout=20) as process:
        yield process


# What it does when all is well.


def test_behaves_like_the_environment(one):
    env = Playground()
    observ, info = one.reset(seed=4, options={"size": 2})
    expected, expected_info = env.reset(seed=4, options={"size": 2})
    np.testing.assert_array_equal(observ, expected)
    assert info == expected_info
    for action in (0, np.int64(50), env.END, 0):  # Nothing is reset by itself.
        result, expected = one.step(action), env.step(action)
        np.testing.assert_array_equal(result[0], expected[0])
        assert result[0].dtype == np.float64
        assert result[1:] == expected[1:]
        assert [type(value) for value in result[1:4]] == [float, bool, bool]
    assert (one.observation_space, one.action_space) == (env.observation_space, env.action_space)
    assert (one.num_envs, len(one)) == (1, 1)


def test_attributes_and_methods(one):
    assert (one.name, one[0].name) == ("one", "one")
    assert one.call("add", 1, two=2) == one[0].call("add", 1, two=2) == 3
    assert one.metadata == Playground.metadata and one.render_mode is None
    one[0].set_attr("name", "another")
    assert one.name == "another"
    one[0].set_attr("name", "one")


def test_names_that_begin_with_an_underscore_are_not_the_environments(one):
    for holder in (one, one[0]):
        with pytest.raises(AttributeError):
            _ = holder._secret
    assert one.call("_secret") == "hidden"  # A call says what it wants.


def test_a_missing_attribute_is_an_attribute_error(one):
    assert not hasattr(one, "nothing")
    assert getattr(one[0], "nothing", 5) == 5
    with pytest.raises(AttributeError, match="Traceback of the environment"):
        _ = one.nothing
    with pytest.raises(EnvironmentRaisedError, match="broken property"):
        _ = one.broken


def test_several_environments_step_together_and_reset_themselves(three):
    observ, infos = three.reset(seed=7)
    assert observ.shape == (3, 2)
    assert [(info["name"], info["seed"]) for info in infos] == [("a", 7), ("b", 8), ("c", 9)]
    observ, reward, terminated, truncated, infos = three.step([0, Playground.END, 0])
    np.testing.assert_array_equal(observ[:, 0], [1, 0, 1])
    np.testing.assert_array_equal(reward, [0.25] * 3)
    np.testing.assert_array_equal(terminated, [False, True, False])
    assert not truncated.any()
    np.testing.assert_array_equal(infos[1]["final_obs"], [1, 1])
    assert (infos[1]["final_info"], infos[0]) == ({"action": Playground.END}, {})
    assert (len(three), [env.name for env in three], three[-1].name) == (3, ["a", "b", "c"], "c")
    assert three[1].call("add", 1) == 1


def test_which_of_several_must_be_said(three):
    with pytest.raises(AttributeError, match=r"'name' of which environment\? This process hosts 3"):
        _ = three.name
    with pytest.raises(AttributeError, match="call"):
        three.call("add", 1)
    with pytest.raises(IndexError):
        _ = three[3]


def test_no_constructors():
    with pytest.raises(ValueError, match="at least one"):
        ExternalProcess([])


def test_results_stay_as_they_are(one):
    first, _ = one.reset()
    results = [one.step(0)[0] for _ in range(5)]
    assert [first[0], *(observ[0] for observ in results)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", [-1, -5])
def test_negative_seeds_are_refused(one, seed):
    with pytest.raises(ValueError, match="negative"):
        one.reset(seed=seed)


@pytest.mark.parametrize("offset", [0, 10])
def test_constructors_may_be_closures_and_local_classes(offset):
    class Local(Playground):
        def observe(self):
            return super().observe() + offset

    with hosting(Local) as process:
        np.testing.assert_array_equal(process.reset()[0], [offset, offset])


BOXES = strategies.builds(
    lambda shape, dtype: spaces.Box(0, 9, shape, dtype),
    strategies.sampled_from([(), (1,), (2, 3)]),
    strategies.sampled_from([np.uint8, np.float32, np.float64]),
)
LEAVES = strategies.one_of(
    BOXES,
    strategies.just(spaces.Discrete(4, start=-1)),
    strategies.just(spaces.MultiDiscrete([3, 2])),
    strategies.just(spaces.MultiBinary(3)),
)
STRUCTURES = strategies.one_of(
    LEAVES,
    strategies.dictionaries(strategies.sampled_from("zya"), LEAVES, min_size=1).map(spaces.Dict),
    strategies.lists(LEAVES, min_size=1, max_size=3).map(spaces.Tuple),
)


class Echo(gymnasium.Env):
    """Observes random elements and says in its info which they were, and which action it got."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def observe(self):
        observ = self.observation_space.sample()
        return observ, {"observ": observ}

    def reset(self, *, seed=None, options=None):
        self.observation_space.seed(seed)
        return self.observe()

    def step(self, action):
        observ, info = self.observe()
        return observ, 0.0, False, False, info | {"action": action, "inside": self.action_space.contains(action)}


@hypothesis.given(STRUCTURES, STRUCTURES, strategies.integers(0, 99))
@hypothesis.settings(deadline=None, max_examples=6)
def test_structures_pass_unchanged_in_both_directions(observation_space, action_space, seed):
    with hosting(lambda: Echo(observation_space, action_space)) as process:
        observ, info = process.reset(seed=seed)
        np.testing.assert_equal(observ, info["observ"])
        action_space.seed(seed)
        for _ in range(3):
            action = action_space.sample()
            observ, _, _, _, info = process.step(action)
            assert info["inside"]
            np.testing.assert_equal(observ, info["observ"])
            np.testing.assert_equal(info["action"], action)


# Promises.


def test_a_promise_gives_its_result_as_often_as_it_is_asked(one):
    one.reset()
    promise = one.step(0, blocking=False)
    first, second = promise(), promise()
    assert first is second
    assert first[0][0] == 1
    assert one.reset(blocking=False)()[0][0] == 0
    assert one.call("add", 2, 3, blocking=False)() == 5


def test_a_failed_promise_fails_as_often_as_it_is_asked(one):
    one.reset()
    promise = one.step(Playground.RAISE, blocking=False)
    with taking_less_than(5):
        for _ in range(2):
            with pytest.raises(EnvironmentRaisedError, match="the 1. step went wrong"):
                promise()


def test_a_promise_given_up_is_not_mixed_up_with_what_follows(one):
    one.reset()
    given_up = one.step(Playground.NAP, blocking=False)
    observ, _, _, _, info = one.step(42)
    assert (observ[0], info) == (2, {"action": 42})
    with pytest.raises(RuntimeError, match="The result is gone"):
        given_up()
    slow = one.call("nap", 0.3, "slow", blocking=False)
    assert one.call("nap", 0, "quick") == "quick"
    with pytest.raises(RuntimeError, match="The result is gone"):
        slow()
    one.call("complain", blocking=False)
    assert one.call("add", 1) == 1


def test_the_action_of_a_step_given_up_stays_its_own():
    class Slow(Playground):
        def reset(self, **kwargs):
            self.actions = []
            return super().reset(**kwargs)

        def step(self, action):
            self.actions.append(action)
            return super().step(action)

    with hosting([Playground, Slow], timeout=20) as process:
        process.reset()
        process.step([Playground.NAP, 11], blocking=False)
        process.step([0, 12])
        assert process[1].actions == [11, 12]


# Failures of an environment.


def check_place(error, process, index=0, step=None):
    assert (error.env_index, error.pid) == (index, process.pid)
    assert step is None or error.step == step
    assert f"environment {index}, process {process.pid}" in str(error)
    assert str(error).endswith(error.traceback_text.rstrip())


def test_errors_of_reset_step_and_methods_are_typed_and_leave_the_process_usable(three):
    with pytest.raises(EnvironmentRaisedError, match="reset raised KeyError: 'bad option'") as caught:
        three.reset(options={"raise": True})
    check_place(caught.value, three)
    three.reset()
    step = three._steps + 1
    with pytest.raises(EnvironmentRaisedError, match="step raised ValueError: the 1. step went wrong") as caught:
        three.step([0, 0, Playground.RAISE])
    check_place(caught.value, three, 2, step)
    assert 'raise ValueError(f"the {self.count}. step went wrong")' in caught.value.traceback_text
    with pytest.raises(EnvironmentRaisedError, match=r"complain\(\) raised LookupError: nothing there") as caught:
        three[1].call("complain")
    check_place(caught.value, three, 1)
    with pytest.raises(EnvironmentRaisedError, match="add"):
        three[1].call("add", 1, 2, 3, 4)
    three.reset()
    assert three.step([0, 0, 0])[0][0, 0] == 1


def test_an_environment_that_exits_has_failed_and_not_ended_its_process(one):
    one.reset()
    with pytest.raises(EnvironmentRaisedError, match="step raised SystemExit: 3"):
        one.step(Playground.EXIT)
    assert one.reset()[0][0] == 0


def test_an_error_of_the_constructor():
    def constructor():
        raise ZeroDivisionError(f"process {os.getpid()}")

    with pytest.raises(EnvironmentRaisedError, match="constructor raised ZeroDivisionError") as caught:
        ExternalProcess([Playground, constructor], index=4)
    pid = int(caught.value.summary.rpartition(" ")[2])
    assert (caught.value.env_index, caught.value.pid) == (5, pid)
    assert not is_running(pid)


def test_a_process_that_waits_for_its_environments_later():
    with hosting(lambda: 1 / 0, blocking=False) as process:
        with pytest.raises(EnvironmentRaisedError, match="ZeroDivisionError"):
            process.wait_until_ready()
        assert process.closed
    with hosting(Playground, blocking=False) as process:
        process.wait_until_ready()
        process.wait_until_ready()
        assert process.reset()[0][0] == 0


def test_what_cannot_be_pickled(one):
    with pytest.raises(EnvironmentRaisedError, match="could not answer.*generator") as caught:
        one.call("generator")
    assert caught.value.pid == one.pid
    with pytest.raises(TypeError, match="pickle"):
        one.call("add", (i for i in range(3)))
    assert one.call("add", 1) == 1
    with pytest.raises(TypeError, match="pickle"):
        generator = (i for i in range(3))
        ExternalProcess(lambda: generator)


def test_a_result_that_cannot_be_unpickled_is_not_mixed_up():
    class Odd:
        def __reduce__(self):
            return os.listdir, ("/no/such/folder",)

    class Env(Playground):
        def odd(self):
            return Odd()

    with hosting(Env) as process, taking_less_than(20):
        promise = process.call("odd", blocking=False)
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                promise()
        assert process.call("add", 1) == 1


def test_an_unsupported_space_is_named():
    class Talker(Playground):
        observation_space = spaces.Text(5)

    with pytest.raises(UnsupportedSpaceError, match="Text"):
        ExternalProcess(Talker)


# Failures of a process.


@pytest.mark.parametrize("several", [False, True])
def test_killed_while_idle(several):
    with hosting([Playground, Playground] if several else Playground) as process:
        process.reset()
        os.kill(process.pid, signal.SIGKILL)
        with taking_less_than(5), pytest.raises(WorkerDiedError, match="was killed by SIGKILL") as caught:
            process.step([0, 0] if several else 0)
        assert (caught.value.exit_code, caught.value.pid, caught.value.step) == (-signal.SIGKILL, process.pid, 1)
        assert caught.value.env_index == (None if several else 0)
        with taking_less_than(5):
            with pytest.raises(WorkerDiedError, match="SIGKILL"):
                process[0].call("add", 1)
            process.close()


@pytest.mark.parametrize("action", [Playground.DIE, Playground.FORK_AND_DIE])
def test_killed_while_stepping(action):
    with hosting([Playground, Playground, Playground], index=4) as process:
        process.reset()
        promise = process.step([0, action, 0], blocking=False)
        with taking_less_than(5):
            for _ in range(2):
                with pytest.raises(WorkerDiedError, match="was killed by SIGKILL") as caught:
                    promise()
            assert caught.value.env_index == 1
            process.close()


def test_killed_while_waited_for():
    with hosting(Playground, timeout=30) as process:
        process.reset()
        promise = process.step(Playground.HANG, blocking=False)
        subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {process.pid}"]).wait()
        with taking_less_than(5), pytest.raises(WorkerDiedError, match="was killed by SIGKILL"):
            promise()


def test_an_exit_code_is_told():
    def constructor():
        os._exit(7)

    with taking_less_than(20), pytest.raises(WorkerDiedError, match="ended with exit code 7") as caught:
        ExternalProcess([Playground, constructor], index=2)
    assert caught.value.env_index == 3


def test_a_hung_environment_times_out_and_is_closed_by_force():
    class Stubborn(Playground):
        def __init__(self):
            super().__init__()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    with hosting([Playground, Stubborn], timeout=0.3) as process:
        process.reset()
        with taking_less_than(5), pytest.raises(WorkerTimeoutError, match="within 0.3 seconds") as caught:
            process.step([0, Playground.HANG])
        assert (caught.value.env_index, caught.value.pid, caught.value.step) == (1, process.pid, 1)
        with taking_less_than(5), pytest.raises(TimeoutError):
            process[0].call("add", 1)
        with taking_less_than(8):
            process.close()
        assert not is_running(process.pid)


def test_a_late_answer_is_not_taken_for_the_next():
    with hosting(Playground, timeout=0.3) as process:
        process.reset()
        promise = process.step(Playground.NAP, blocking=False)
        with pytest.raises(WorkerTimeoutError):
            promise()
        assert process.call("nap", 0, "mine") == "mine"
        assert process.step(50)[4] == {"action": 50}
        assert process.step(51)[0][0] == 3


def test_a_late_answer_can_be_waited_for_again():
    with hosting(Playground, timeout=0.4) as process:
        process.reset()
        promise = process.step(Playground.NAP, blocking=False)
        with pytest.raises(WorkerTimeoutError):
            promise()
        assert promise()[4] == {"action": Playground.NAP}


def test_a_worker_stopped_in_the_middle_of_a_long_answer():
    with hosting(Playground, timeout=0.5) as process:
        promise = process.call("large", 20_000_000, blocking=False)
        time.sleep(0.3)  # By now it has filled the socket.
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(WorkerTimeoutError):
            promise()
        os.kill(process.pid, signal.SIGCONT)
        process._timeout = 20
        assert process.call("add", 1) == 1


def test_a_worker_that_does_not_read_a_long_question():
    with hosting(Playground, timeout=0.3) as process:
        os.kill(process.pid, signal.SIGSTOP)
        with taking_less_than(5), pytest.raises(WorkerTimeoutError):
            process.call("add", bytes(20_000_000))
        os.kill(process.pid, signal.SIGCONT)


# Its end.


def test_closing_closes_the_environments_and_leaves_nothing(tmp_path):
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    log = tmp_path / "log"
    process = ExternalProcess([lambda: Playground("a", log), lambda: Playground("b", log)])
    assert len(os.listdir("/proc/self/fd")) > descriptors
    maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
    assert "memfd:agents" in maps and "/dev/shm" not in maps  # Nothing that has a name, so nothing is left behind.
    with taking_less_than(5):
        process.close()
        process.close()
    assert process.closed and not is_running(process.pid)
    assert log.read_text() == "a closed\nb closed\n"
    with pytest.raises(RuntimeError, match="closed"):
        process.step([0, 0])
    with pytest.raises(RuntimeError, match="closed"):
        process.reset()
    with pytest.raises(RuntimeError, match="closed"):
        process[0].call("add", 1)
    del process
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.parametrize("waiting_for", ["start", "step", "large answer"])
def test_closing_with_an_answer_under_way_is_quick_and_closes_the_environments(tmp_path, waiting_for):
    log = tmp_path / "log"
    process = ExternalProcess(lambda: Playground("a", log), blocking=waiting_for != "start")
    promise = None
    if waiting_for == "step":
        process.reset()
        promise = process.step(Playground.NAP, blocking=False)
    elif waiting_for == "large answer":
        promise = process.call("large", 20_000_000, blocking=False)
    process.close()
    assert process._process.returncode == 0
    assert log.read_text() == "a closed\n"
    if promise:
        with pytest.raises(RuntimeError, match="closed"):
            promise()


def test_ends_when_it_is_forgotten():
    process = ExternalProcess(Playground)
    pid, gone = process.pid, weakref.ref(process)
    del process
    assert gone() is None
    assert not is_running(pid)


def run(script, tmp_path, **kwargs):
    path = tmp_path / "script.py"
    path.write_text(script)
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, **kwargs)


def test_a_fork_of_the_parent_leaves_the_worker_alone(tmp_path):
    script = """
import os, sys
import gymnasium
from agents.tools import ExternalProcess
process = ExternalProcess(lambda: gymnasium.make("CartPole-v1"))
child = os.fork()
if child == 0:
    process.ask_to_close()
    process.close()
    sys.exit(0)  # Runs what is to be done at exit.
os.waitpid(child, 0)
print(process.reset(seed=0)[0].shape, ExternalProcess(lambda: gymnasium.make("CartPole-v1")).reset(seed=0)[0].shape)
"""
    answer = run(script, tmp_path)
    assert (answer.stdout, answer.returncode) == ("(4,) (4,)\n", 0), answer.stderr


def test_environments_of_a_script_without_a_main_guard(tmp_path):
    script = """
import gymnasium, numpy, os
from agents.tools import ExternalProcess
print("imported")

class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, level=0):
        self.level = level
    def reset(self, *, seed=None, options=None):
        return numpy.full(2, self.level, numpy.float32), {"pid": os.getpid()}
    def step(self, action):
        return numpy.zeros(2, numpy.float32), helper(action), False, False, {}

def helper(action):
    return action + 0.5

gymnasium.register("Mine-v0", Mine, kwargs={"level": 1}, max_episode_steps=5)
spec = gymnasium.spec("Mine-v0")
for constructor in (Mine, lambda: gymnasium.make(spec)):
    process = ExternalProcess(constructor)
    observ, info = process.reset()
    print(observ, process.step(1)[1], info["pid"] != os.getpid())
"""
    answer = run(script, tmp_path)
    assert answer.stdout == "imported\n[0. 0.] 1.5 True\n[1. 1.] 1.5 True\n", answer.stderr
    assert (answer.stderr, answer.returncode) == ("", 0)


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    script = """
import os, signal, threading, time
import gymnasium
from agents.tools import ExternalProcess

class Busy(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    def reset(self, **kwargs):
        time.sleep(60)

processes = [ExternalProcess(lambda: gymnasium.make("CartPole-v1")) for _ in range(2)]
thread = threading.Thread(target=lambda: processes.append(ExternalProcess(Busy)))
thread.start()
thread.join()  # A worker must not end with the thread that asked for it.
processes[2].reset(blocking=False)
starting = ExternalProcess(Busy, blocking=False)
processes[0].reset(seed=0), processes[2].closed
print(*(process.pid for process in [*processes, starting]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    answer = run(script, tmp_path)
    pids = [int(pid) for pid in answer.stdout.split()]
    assert answer.returncode == -signal.SIGKILL and len(pids) == 4, answer.stderr
    deadline = time.monotonic() + 10
    while any(map(is_working, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_working, pids))


def is_working(pid):
    """Whether a process runs; a zombie, which nobody may be there to reap, does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_an_interrupt_of_the_whole_group_leaves_workers_and_their_answers_intact(tmp_path):
    script = """
import os, signal, time
import gymnasium
from agents.tools import ExternalProcess

class Slow(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(9)
    def reset(self, **kwargs):
        return 0, {}
    def step(self, action):
        time.sleep(0.5)
        return int(action), 0.0, False, False, {}

process, starting = ExternalProcess(Slow), ExternalProcess(Slow, blocking=False)
process.reset()
promise = process.step(4, blocking=False)
time.sleep(0.1)
try:
    os.killpg(0, signal.SIGINT)
    time.sleep(10)
except KeyboardInterrupt:
    print("interrupted")
print(promise()[0], process.step(5)[0])
try:
    process.step(6, blocking=False)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGINT))
    process.step(7)
except KeyboardInterrupt:
    print("interrupted")
print(process.step(8)[0])
starting.wait_until_ready()
print(starting.reset()[0])
"""
    answer = run(script, tmp_path, start_new_session=True)
    assert answer.stdout == "interrupted\n4 5\ninterrupted\n8\n0\n", answer.stderr
    assert (answer.stderr, answer.returncode) == ("", 0)


def test_a_mock_environment_without_dimensions():
    with hosting(lambda: MockEnvironment((), (), 3, 3)) as process:
        observ, _ = process.reset(seed=0)
        assert isinstance(observ, np.ndarray) and observ.shape == ()
        assert process.step(np.array(0.5, np.float32))[0] in process.observation_space
