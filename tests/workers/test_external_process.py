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
from gymnasium import spaces

from agents.environments.mock_environment import MockEnvironment
from agents.errors import EnvironmentRaisedError, UnsupportedSpaceError
from agents.workers.external_process import ExternalProcess
from tests.faults.processes import is_running, taking_less_than
from tests.faulty_toys import CommandedEnv
from tests.toys import MIXED_ACTIONS, MIXED_OBSERVATIONS, RandomEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def hosting(constructor, **kwargs):
    return contextlib.closing(ExternalProcess(constructor, **kwargs))


@pytest.fixture(scope="module")
def one():
    """A process with one environment that stays usable."""
    with hosting(CommandedEnv, timeout=20, blocking=False) as process:
        process.wait_until_ready()
        process.wait_until_ready()
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
        observs = []
        for action in (0, np.int64(50), env.END, 0):  # There is no autoreset.
            result, expected = process.step(action), env.step(action)
            observs.append((result[0], expected[0]))
            assert result[0].dtype == np.float64
            assert result[1:] == expected[1:]
            assert [type(value) for value in result[1:4]] == [float, bool, bool]
        for observ, expected in observs:  # They have not changed since.
            np.testing.assert_array_equal(observ, expected)
        assert process.observation_space == env.observation_space
        assert process.action_space == env.action_space
        assert (process.num_envs, len(process)) == (1, 1)


class RecordingEnv(RandomEnv):
    """Reports its last action."""

    @property
    def last_action(self):
        return self.history[-1].action


def test_structures_arrive_unchanged_in_both_directions():
    make = lambda: RecordingEnv(MIXED_OBSERVATIONS, MIXED_ACTIONS, 0, 0)  # noqa: E731
    with hosting(make, timeout=20) as process:
        observ, _ = process.reset(seed=3)
        np.testing.assert_equal(observ, process.observs[-1])
        for action in (process.action_space.sample() for _ in range(3)):
            observ = process.step(action)[0]
            np.testing.assert_equal(observ, process.observs[-1])
            np.testing.assert_equal(process.last_action, action)  # In its space, as checked.


def test_spaces_without_dimensions_and_unsupported_ones():
    with hosting(lambda: MockEnvironment((), (), 3, 3)) as process:
        observ, _ = process.reset(seed=0)
        assert isinstance(observ, np.ndarray) and observ.shape == ()
        assert process.step(np.array(0.5, np.float32))[0] in process.observation_space

    class Talker(gymnasium.Env):
        observation_space, action_space = spaces.Text(5), spaces.Discrete(2)

    with pytest.raises(UnsupportedSpaceError, match="Text"):
        ExternalProcess(Talker)


def test_attributes_and_methods(one):
    assert (one.name, one[0].name) == ("one", "one")
    assert one.call("add", 1, two=2) == one[0].call("add", 1, two=2) == 3
    assert one.call("add", 2, 3, blocking=False)() == 5
    assert one.metadata == CommandedEnv.metadata and one.render_mode is None
    one[0].set_attr("name", "another")
    assert one.name == "another"
    one[0].set_attr("name", "one")
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
    with pytest.raises(AttributeError, match=r"'name' of which environment\? This process hosts 3"):
        _ = three.name
    with pytest.raises(AttributeError, match="call"):
        three.call("add", 1)
    with pytest.raises(IndexError):
        _ = three[3]


def test_steps_and_resets_without_waiting(one, three):
    one.reset()
    promise = one.step(0, blocking=False)
    first, second = promise(), promise()
    assert first is second
    assert first[0][1] == 1
    assert one.reset(blocking=False)()[0][1] == 0
    three.reset()
    three.step([CommandedEnv.NAP, 11, 0], blocking=False)
    three.step([0, 12, 0])
    assert three[1].actions[-2:] == [11, 12]  # An abandoned step keeps its own action.


# Failures of an environment; those of its process are in tests/vector and tests/faults.


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


def test_arguments_and_constructors_that_are_refused(one):
    with pytest.raises(ValueError, match="negative"):
        one.reset(seed=-1)
    with pytest.raises(ValueError, match="at least one"):
        ExternalProcess([])
    generator = (i for i in range(3))
    with pytest.raises(TypeError, match="pickle"):
        one.call("add", generator)
    assert one.call("add", 1) == 1
    with pytest.raises(TypeError, match="pickle"):
        ExternalProcess(lambda: generator)
    with hosting(lambda: 1 / 0, blocking=False) as process:
        with pytest.raises(EnvironmentRaisedError, match="ZeroDivisionError"):
            process.wait_until_ready()
        assert process.closed


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
