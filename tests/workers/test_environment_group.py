import signal

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from agents import stop_signals
from agents.environments.mock_environment import MockEnvironment
from agents.errors import EnvironmentRaisedError
from agents.workers.environment_group import Description, EnvironmentGroup, describe
from agents.workers.host import LocalHost, close_hosts
from agents.workers.shared_arrays import BatchArrays, Layout
from tests.faulty_toys import FaultyEnv
from tests.toys import COUNTS, THREE_CHOICES, CountingEnv, ScriptedEnv

START = 2
OBSERVATIONS = spaces.Dict(b=spaces.Box(-1, 1000, (2,), np.float32), a=spaces.Discrete(1000))
ACTIONS = spaces.Dict(x=spaces.Box(-9, 9, (1,), np.float64), k=spaces.Discrete(10))


def half_the_steps(steps, action):
    return steps / 2


def steps_of(steps):
    return {"steps": steps}


def counting(length=5, ending="truncated", cls=CountingEnv):
    """An environment that observes its step count in all leaves; its infos hold it, too."""
    return cls([(length, ending)], OBSERVATIONS, ACTIONS, half_the_steps, steps_of)


def make(*envs, autoreset=True):
    group = EnvironmentGroup([lambda env=env: env for env in envs])
    layout = Layout(START + len(envs) + 1, envs[0].observation_space, envs[0].action_space)
    arrays = BatchArrays(layout)
    arrays.block[:] = 0
    arrays.seed[:] = -1
    group.attach(arrays, START, autoreset)
    return group, arrays


def test_reset_resets_the_environments_of_the_mask_and_writes_their_rows_only():
    envs = [counting(), counting(), counting()]
    group, arrays = make(*envs)
    for observ in arrays.observ:
        observ[...] = -1
    arrays.reward[:] = arrays.terminated[:] = 1
    arrays.mask[:] = [True, True, True, False, True, True]
    arrays.seed[:] = [9, 9, 7, 7, -1, 9]
    assert group.reset({"size": 3}) == [(2, {"steps": 0}, None), (4, {"steps": 0}, None)]
    assert [env.resets for env in envs] == [[(7, {"size": 3})], [], [(None, {"size": 3})]]
    np.testing.assert_array_equal(arrays.observ[0], [-1, -1, 0, -1, 0, -1])
    np.testing.assert_array_equal(arrays.observ[1][:, 1], [-1, -1, 0, -1, 0, -1])
    np.testing.assert_array_equal(arrays.reward, [1, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(arrays.terminated, [True, True, False, True, False, True])


def test_the_last_step_of_an_episode_writes_its_final_and_the_next_first_observation():
    group, arrays = make(counting(2, "terminated"), counting())
    arrays.mask[:] = True
    group.reset()
    assert group.step() == []
    assert group.step() == [(2, {"steps": 0}, {"steps": 2})]
    np.testing.assert_array_equal(arrays.observ[0], [0, 0, 0, 2, 0])
    assert arrays.final_observ[0][2] == 2
    np.testing.assert_array_equal(arrays.final_observ[1][2], [2, 2])
    np.testing.assert_array_equal(arrays.terminated, [False, False, True, False, False])
    np.testing.assert_array_equal(arrays.reward, [0, 0, 1, 1, 0])
    group.step()
    group.step()
    group.step()
    np.testing.assert_array_equal(arrays.truncated, [False, False, False, True, False])


def test_without_autoreset_nothing_is_reset_and_all_infos_are_returned():
    env = counting(1, "terminated")
    group, arrays = make(env, autoreset=False)
    arrays.mask[:] = True
    group.reset()
    assert group.step() == [(2, {"steps": 1}, None)]
    assert len(env.resets) == 1
    assert arrays.terminated[2] and arrays.observ[0][2] == 1


def test_actions_are_elements_of_the_space_and_stay_unchanged():
    env = counting()
    group, arrays = make(env)
    arrays.mask[:] = True
    group.reset()
    for k in (3, 4):
        arrays.action[0][START], arrays.action[1][START] = k, k / 2
        group.step()
    assert [action["k"] for action in env.actions] == [3, 4]
    assert [action["x"].tolist() for action in env.actions] == [[1.5], [2.0]]
    assert all(
        action in env.action_space and isinstance(action["k"], np.int64) for action in env.actions
    )


def test_actions_without_dimensions_are_arrays():
    group, arrays = make(MockEnvironment((), (), 3, 3))
    arrays.mask[:] = True
    group.reset()
    group.step()  # A mock environment accepts arrays only.
    assert group.envs[0].steps == [1]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such luck"),
        SystemExit(3),
        MemoryError("full"),
        KeyboardInterrupt("from the environment"),
        GeneratorExit("no more"),
        BaseException("of any kind"),
    ],
)
@pytest.mark.parametrize(("method", "countdown"), [("reset", 1), ("step", 2)])
def test_errors_are_typed_and_name_the_environment(method, countdown, error):
    group, arrays = make(counting(), FaultyEnv(counting(), error, countdown, method))
    arrays.mask[:] = True
    with pytest.raises(EnvironmentRaisedError) as caught:
        group.reset()
        group.step()
        group.step()
    assert caught.value.env_index == START + 1
    assert caught.value.type_name == type(error).__name__
    assert f"{method} raised {type(error).__name__}: {error}" in caught.value.summary
    assert "raise self.fault" in caught.value.traceback_text
    assert caught.value.__cause__ is error


def test_a_failing_constructor_closes_the_environments_before_it():
    env = counting()
    with pytest.raises(
        EnvironmentRaisedError, match="constructor raised ZeroDivisionError"
    ) as caught:
        EnvironmentGroup([lambda: env, lambda: 1 / 0], start=5)
    assert caught.value.env_index == 6
    assert env.closed


def test_an_observation_of_another_shape_is_not_broadcast():
    observ = {"b": np.zeros(1, np.float32), "a": 0}
    group, arrays = make(ScriptedEnv([observ], OBSERVATIONS, ACTIONS))
    arrays.mask[:] = True
    message = r"shape \(1,\) at \['b'\], expected Box\(-1.0, 1000.0, \(2,\), float32\)"
    with pytest.raises(EnvironmentRaisedError, match=message):
        group.reset()


def test_call_get_and_set_look_through_wrappers():
    wrapped = [gymnasium.wrappers.TimeLimit(counting(), 9) for _ in range(2)]
    group, _ = make(*wrapped)
    assert group.call(1, "add", (1,), {"two": 2}) == 3
    assert group.call(1, "name") == group.get(1, "name") == "counter"
    group.set(1, "name", "another")
    assert [env.unwrapped.name for env in wrapped] == ["counter", "another"]
    with pytest.raises(EnvironmentRaisedError, match="AttributeError") as caught:
        group.get(1, "nothing")
    assert caught.value.env_index == START + 1


def test_busy_is_the_index_of_the_environment_in_use():
    class Busy(list):
        def __setitem__(self, item, env):
            seen.append(env)

    seen = []
    group = EnvironmentGroup([counting, counting], busy=Busy([-1]))
    layout = Layout(2, OBSERVATIONS, ACTIONS)
    arrays = BatchArrays(layout)
    group.attach(arrays, 0, autoreset=True)
    arrays.mask[:], arrays.seed[:] = [False, True], -1
    group.reset()
    arrays.mask[:] = [True, False]
    group.reset()
    group.step()
    group.get(1, "name")
    assert seen == [0, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt, SystemExit, BaseException])
def test_close_closes_all_environments_even_if_one_raises(kind, capsys):
    class Stubborn(CountingEnv):
        def close(self):
            raise kind("can't close")

    envs = [counting(cls=Stubborn), counting()]
    group, _ = make(*envs)
    group.close()
    assert envs[1].closed
    assert "can't close" in capsys.readouterr().err


def test_a_signal_that_interrupts_a_close_is_raised_when_all_are_closed():
    class Interrupted(CountingEnv):
        def close(self):
            signal.raise_signal(signal.SIGINT)

    envs = [counting(cls=Interrupted), counting()]
    hosts = [LocalHost(lambda: envs[0]), LocalHost(lambda: envs[1])]
    with pytest.raises(KeyboardInterrupt):
        close_hosts(hosts)
    assert envs[1].closed


def test_a_stop_ends_a_step_after_the_environment_in_use(monkeypatch):
    class Stopping(CountingEnv):
        def step(self, action):
            monkeypatch.setattr(stop_signals, "requested", signal.SIGTERM)
            return super().step(action)

    envs = [counting(), counting(cls=Stopping), counting()]
    group, arrays = make(*envs)
    arrays.mask[:] = True
    group.reset()
    with pytest.raises(stop_signals.StopRequested):
        group.step()
    assert [env.steps for env in envs] == [1, 1, 0]
    with pytest.raises(stop_signals.StopRequested):
        group.reset()


class Unprintable(Exception):
    def __str__(self):
        raise self.args[0]


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_errors_without_text_and_objects_without_spaces_are_attributed(kind):
    def fail():
        raise Unprintable(kind("no description"))

    with pytest.raises(EnvironmentRaisedError, match="Unprintable, which has no text") as caught:
        EnvironmentGroup([counting, fail], START)
    assert caught.value.env_index == START + 1
    with pytest.raises(EnvironmentRaisedError, match="constructor.*'int'.*space") as caught:
        EnvironmentGroup([counting, lambda: 3], START)
    assert caught.value.env_index == START + 1


# Descriptions.


def plain():
    return CountingEnv(action_space=THREE_CHOICES, render_mode="rgb_array")


def marked():
    env = plain()
    env.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # As Gymnasium 1.1 leaves them.
    return env


def test_describes_an_environment_through_its_wrappers():
    expected = Description(COUNTS, THREE_CHOICES, CountingEnv.metadata, "rgb_array", None)
    assert describe(plain()) == expected
    assert describe(gymnasium.wrappers.TimeLimit(plain(), 5)) == expected
    autoreset = describe(gymnasium.wrappers.Autoreset(plain()))
    assert autoreset == expected._replace(autoreset_layer="Autoreset")


def autoreset_layer(env):
    return describe(env).autoreset_layer


def test_finds_the_wrapper_that_resets_automatically():
    assert autoreset_layer(plain()) is None
    assert autoreset_layer(gymnasium.wrappers.TimeLimit(marked(), 5)) is None
    inner = gymnasium.wrappers.Autoreset(plain())
    assert autoreset_layer(gymnasium.wrappers.TimeLimit(inner, 5)) == "Autoreset"
