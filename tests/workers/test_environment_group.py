import signal

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from agents import stop_signals
from agents.errors import EnvironmentRaisedError
from agents.workers.environment_group import Description, EnvironmentGroup, describe
from agents.workers.host import LocalHost, close_hosts
from agents.workers.shared_arrays import BatchArrays, Layout
from tests.toys import COUNTS, THREE_CHOICES, CountingEnv

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


def test_a_failing_constructor_closes_the_environments_before_it():
    env = counting()
    with pytest.raises(
        EnvironmentRaisedError, match="constructor raised ZeroDivisionError"
    ) as caught:
        EnvironmentGroup([lambda: env, lambda: 1 / 0], start=5)
    assert caught.value.env_index == 6
    assert env.closed


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


# Descriptions.


def plain():
    return CountingEnv(action_space=THREE_CHOICES, render_mode="rgb_array")


def test_describes_an_environment_through_its_wrappers():
    expected = Description(COUNTS, THREE_CHOICES, CountingEnv.metadata, "rgb_array", None)
    assert describe(plain()) == expected
    assert describe(gymnasium.wrappers.TimeLimit(plain(), 5)) == expected
    autoreset = describe(gymnasium.wrappers.Autoreset(plain()))
    assert autoreset == expected._replace(autoreset_layer="Autoreset")
    inner = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.Autoreset(plain()), 5)
    assert describe(inner) == autoreset
    marked = plain()
    marked.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # As Gymnasium 1.1 leaves them.
    assert describe(marked).autoreset_layer is None
