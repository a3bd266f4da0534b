import contextlib
import gc
import os
import pathlib
import sys
import weakref

import cloudpickle
import gymnasium
import numpy as np
import pytest

from agents.errors import (
    EnvironmentRaisedError,
)
from agents.workers.external_process import ExternalProcess
from tests.faults.processes import is_running, taking_less_than
from tests.faulty_toys import CommandedEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def hosting(constructor, **kwargs):
    return contextlib.closing(ExternalProcess(constructor, **kwargs))


@pytest.fixture(scope="module")
def one():
    """A process with one environment that stays usable."""
    with hosting(CommandedEnv, timeout=20) as process:
        yield process


@pytest.fixture(scope="module")
def three():
    """A process with three environments."""
    constructors = [
        lambda name=name: gymnasium.wrappers.TimeLimit(CommandedEnv(name), 50) for name in "abc"
    ]
    with hosting(constructors, timeout=20) as process:
        yield process


# Steps, resets and attributes.


def test_behaves_like_the_environment():
    env = CommandedEnv()
    with hosting(CommandedEnv, timeout=20) as process:
        observ, info = process.reset(seed=4, options={"size": 2})
        expected, expected_info = env.reset(seed=4, options={"size": 2})
        np.testing.assert_array_equal(observ, expected)
        assert info == expected_info
        for action in (0, np.int64(50), env.END, 0):  # There is no autoreset.
            result, expected = process.step(action), env.step(action)
            np.testing.assert_array_equal(result[0], expected[0])
            assert result[0].dtype == np.float64
            assert result[1:] == expected[1:]
            assert [type(value) for value in result[1:4]] == [float, bool, bool]
        assert process.observation_space == env.observation_space
        assert process.action_space == env.action_space
        assert (process.num_envs, len(process)) == (1, 1)


def test_attributes_and_methods(one):
    assert (one.name, one[0].name) == ("one", "one")
    assert one.call("add", 1, two=2) == one[0].call("add", 1, two=2) == 3
    assert one.metadata == CommandedEnv.metadata and one.render_mode is None
    one[0].set_attr("name", "another")
    assert one.name == "another"
    one[0].set_attr("name", "one")


def test_missing_and_special_attributes(one):
    with pytest.raises(AttributeError):
        _ = one._secret
    assert one.call("_secret") == "hidden"
    assert not hasattr(one, "nothing")
    with pytest.raises(AttributeError, match="Traceback of the environment"):
        _ = one.nothing
    with pytest.raises(EnvironmentRaisedError, match="broken property"):
        _ = one[0].broken


def test_several_environments_step_together_with_autoreset(three):
    observ, infos = three.reset(seed=7)
    assert observ.shape == (3, 2)
    assert [(info["name"], info["seed"]) for info in infos] == [("a", 7), ("b", 8), ("c", 9)]
    observ, reward, terminated, truncated, infos = three.step([0, CommandedEnv.END, 0])
    np.testing.assert_array_equal(observ[:, 1], [1, 0, 1])
    np.testing.assert_array_equal(reward, [0.25] * 3)
    np.testing.assert_array_equal(terminated, [False, True, False])
    assert not truncated.any()
    np.testing.assert_array_equal(infos[1]["final_obs"], [observ[1, 0], 1])
    assert (infos[1]["final_info"], infos[0]) == ({"action": CommandedEnv.END}, {})
    assert (len(three), [env.name for env in three], three[-1].name) == (3, ["a", "b", "c"], "c")
    assert three[1].call("add", 1) == 1


def test_attributes_of_several_environments_need_an_index(three):
    with pytest.raises(AttributeError, match=r"'name' of which environment\? This process hosts 3"):
        _ = three.name
    with pytest.raises(AttributeError, match="call"):
        three.call("add", 1)
    with pytest.raises(IndexError):
        _ = three[3]


def test_results_do_not_change_and_wrong_arguments_are_refused(one):
    first, _ = one.reset()
    results = [one.step(0)[0] for _ in range(5)]
    assert [first[1], *(observ[1] for observ in results)] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="negative"):
        one.reset(seed=-1)
    with pytest.raises(ValueError, match="at least one"):
        ExternalProcess([])


def test_constructors_may_be_closures_and_local_classes(offset=10):
    class Local(CommandedEnv):
        def _observ(self):
            return super()._observ() + offset

    with hosting(Local) as process:
        np.testing.assert_array_equal(process.reset()[0], [offset, offset])


# Promises.


def test_steps_and_resets_without_waiting(one):
    one.reset()
    promise = one.step(0, blocking=False)
    first, second = promise(), promise()
    assert first is second
    assert first[0][1] == 1
    assert one.reset(blocking=False)()[0][1] == 0
    assert one.call("add", 2, 3, blocking=False)() == 5


def test_an_abandoned_step_keeps_its_own_action():
    with hosting([CommandedEnv, CommandedEnv], timeout=20) as process:
        process.reset()
        process.step([CommandedEnv.NAP, 11], blocking=False)
        process.step([0, 12])
        assert process[1].actions == [11, 12]


# Failures of an environment.


def assert_place(error, process, index=0, step=None):
    assert (error.env_index, error.pid) == (index, process.pid)
    assert step is None or error.step == step
    assert f"environment {index}, process {process.pid}" in str(error)
    assert str(error).endswith(error.traceback_text.rstrip())


def test_errors_of_reset_step_and_methods_are_typed_and_leave_the_process_usable(three):
    with pytest.raises(EnvironmentRaisedError, match="reset raised KeyError: 'a'") as caught:
        three.reset(options={"raise": "a"})
    assert_place(caught.value, three)
    three.reset()
    step = three.host._steps + 1
    with pytest.raises(EnvironmentRaisedError, match="step raised ValueError: c failed") as caught:
        three.step([0, 0, CommandedEnv.RAISE])
    assert_place(caught.value, three, 2, step)
    assert 'raise ValueError(f"{self.name} failed")' in caught.value.traceback_text
    with pytest.raises(
        EnvironmentRaisedError, match=r"complain\(\) raised LookupError: nothing there"
    ) as caught:
        three[1].call("complain")
    assert_place(caught.value, three, 1)
    with pytest.raises(EnvironmentRaisedError, match="add"):
        three[1].call("add", 1, 2, 3, 4)
    three.reset()
    assert three.step([0, 0, 0])[0][0, 1] == 1


def test_waiting_for_the_environments_later():
    with hosting(lambda: 1 / 0, blocking=False) as process:
        with pytest.raises(EnvironmentRaisedError, match="ZeroDivisionError"):
            process.wait_until_ready()
        assert process.closed
    with hosting(CommandedEnv, blocking=False) as process:
        process.wait_until_ready()
        process.wait_until_ready()
        assert process.reset()[0][1] == 0


def test_values_that_cannot_be_pickled(one):
    with pytest.raises(
        EnvironmentRaisedError, match="could not reply.*cannot pickle 'generator'"
    ) as caught:
        one.call("generator")
    assert caught.value.pid == one.pid
    with pytest.raises(TypeError, match="pickle"):
        one.call("add", (i for i in range(3)))
    assert one.call("add", 1) == 1
    with pytest.raises(TypeError, match="pickle"):
        generator = (i for i in range(3))
        ExternalProcess(lambda: generator)


# Closing.


@pytest.mark.timing
def test_closing_closes_the_environments_and_leaves_nothing_behind(tmp_path):
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    log = tmp_path / "log"
    process = ExternalProcess([lambda: CommandedEnv("a", log), lambda: CommandedEnv("b", log)])
    assert len(os.listdir("/proc/self/fd")) > descriptors
    maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
    assert "memfd:agents" in maps and "/dev/shm" not in maps  # Nothing that has a name.
    with taking_less_than(50):
        process.close()
        process.close()
    assert process.closed and not is_running(process.pid)
    assert log.read_text() == "a closed\nb closed\n"
    for use in (lambda p: p.step([0, 0]), lambda p: p.reset(), lambda p: p[0].call("add", 1)):
        with pytest.raises(RuntimeError, match="closed"):
            use(process)
    del process
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.parametrize("waiting_for", ["start", "step", "large reply"])
def test_closing_before_a_reply_is_quick_and_closes_the_environments(tmp_path, waiting_for):
    log = tmp_path / "log"
    process = ExternalProcess(lambda: CommandedEnv("a", log), blocking=waiting_for != "start")
    promise = None
    if waiting_for == "step":
        process.reset()
        promise = process.step(CommandedEnv.NAP, blocking=False)
    elif waiting_for == "large reply":
        promise = process.call("large", 20_000_000, blocking=False)
    process.close()
    assert process.host.worker.exit_code() == 0
    assert log.read_text() == "a closed\n"
    if promise:
        with pytest.raises(RuntimeError, match="closed"):
            promise()


def test_ends_when_it_is_garbage_collected():
    process = ExternalProcess(CommandedEnv)
    pid, gone = process.pid, weakref.ref(process)
    del process
    assert gone() is None
    assert not is_running(pid)
