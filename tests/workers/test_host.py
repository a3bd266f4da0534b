import contextlib

import numpy as np
import pytest

from agents.errors import EnvironmentRaisedError
from agents.workers.environment_group import describe
from agents.workers.host import LocalHost, WorkerHost
from agents.workers.shared_arrays import BatchArrays, Layout
from tests.faulty_toys import CommandedEnv

START, NUM_ENVS = 2, 4


def make_worker_host():
    host = WorkerHost([CommandedEnv], timeout=20)
    host.wait_until_ready()
    return host


@pytest.fixture(params=["local", "worker"])
def attached(request):
    """A host of one environment, and the arrays of a batch of which it has row `START`."""
    host = LocalHost(CommandedEnv) if request.param == "local" else make_worker_host()
    layout = Layout(NUM_ENVS, CommandedEnv.observation_space, CommandedEnv.action_space)
    arrays = BatchArrays(layout)
    with contextlib.closing(host), contextlib.closing(arrays):
        host.attach(arrays, START)
        yield host, arrays


def reset(host, arrays, seed=-1, options=None):
    arrays.mask[:], arrays.seed[:] = True, seed
    host.send_reset(options)
    return host.receive()


def step(host, arrays, action):
    arrays.action[0][START] = action
    host.send_step()
    return host.receive()


def test_describes_its_environments(attached):
    host, _ = attached
    assert host.num_envs == 1
    assert list(host.descriptions) == [describe(CommandedEnv())]


def test_resets_and_steps_its_rows(attached):
    host, arrays = attached
    infos = reset(host, arrays, seed=7, options={"size": 2})
    assert infos == [(START, {"seed": 7, "options": {"size": 2}, "name": "one"}, None)]
    assert step(host, arrays, 0) == []
    np.testing.assert_array_equal(arrays.observ[0][:, 1], [0, 0, 1, 0])
    np.testing.assert_array_equal(arrays.reward, [0, 0, 0.25, 0])
    first_info = {"options": None, "name": "one"}
    expected = [(START, first_info, {"action": CommandedEnv.END})]
    assert step(host, arrays, CommandedEnv.END) == expected
    np.testing.assert_array_equal(arrays.final_observ[0][:, 1], [0, 0, 2, 0])
    np.testing.assert_array_equal(arrays.terminated, [False, False, True, False])


def test_environments_outside_of_the_mask_are_not_reset(attached):
    host, arrays = attached
    reset(host, arrays)
    step(host, arrays, 0)
    arrays.mask[:] = False
    host.send_reset()
    assert host.receive() == []
    assert arrays.observ[0][START, 1] == 1


def test_errors_name_the_row_and_the_host_takes_further_requests(attached):
    host, arrays = attached
    reset(host, arrays)
    with pytest.raises(EnvironmentRaisedError, match="ValueError: one failed") as caught:
        step(host, arrays, CommandedEnv.RAISE)
    assert caught.value.env_index == START
    reset(host, arrays)
    assert step(host, arrays, 0) == []


def test_asks_an_environment(attached):
    host, _ = attached
    assert host.ask("get", 0, "name") == host.ask("call", 0, "name") == "one"
    host.ask("set", 0, "name", "another")
    assert host.ask("get", 0, "name") == "another"


def test_hands_out_environments_or_handles(attached):
    host, _ = attached
    assert host[0].name == "one"
    assert isinstance(host[0], CommandedEnv) == isinstance(host, LocalHost)
    with pytest.raises(IndexError):
        _ = host[1]


def test_closing_again_does_nothing(attached):
    host, _ = attached
    host.ask_to_close()
    host.close()
    host.close()
