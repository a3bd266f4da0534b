import contextlib
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.errors import EnvironmentRaisedError
from agents.shared_memory.shared_arrays import BatchArrays, Layout
from agents.shared_memory.shared_block import SharedBlock
from agents.workers.attachment import Attachment
from agents.workers.description import describe
from agents.workers.host import LocalHost
from agents.workers.worker_host import WorkerHost

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

START, NUM_ENVS = 2, 4


class Counter(gymnasium.Env):
    """Observes its step count; terminates after action 1 and raises after action 2."""

    observation_space = spaces.Box(0, 1000, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self):
        self.name = "counter"

    def observe(self):
        return np.full(2, self.count, np.float32)

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return self.observe(), {"seed": seed, "options": options}

    def step(self, action):
        self.count += 1
        if action == 2:
            raise ValueError(f"at {self.count}")
        return self.observe(), 0.5, bool(action == 1), False, {"count": self.count}


def make_worker_host():
    host = WorkerHost([Counter], timeout=20)
    host.wait_until_ready()
    return host


@pytest.fixture(params=["local", "worker"])
def attached(request):
    """A host of one environment, and the arrays of a batch of which it has row `START`."""
    host = LocalHost(Counter()) if request.param == "local" else make_worker_host()
    layout = Layout(NUM_ENVS, Counter.observation_space, Counter.action_space)
    block = SharedBlock(layout.size)
    arrays = BatchArrays(layout, block.bytes)
    with contextlib.closing(host), contextlib.closing(block):
        host.attach(Attachment(arrays, block, START, autoreset=True))
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
    assert list(host.descriptions) == [describe(Counter())]


def test_resets_and_steps_its_rows(attached):
    host, arrays = attached
    infos = reset(host, arrays, seed=7, options={"size": 2})
    assert infos == [(START, {"seed": 7, "options": {"size": 2}}, None)]
    assert step(host, arrays, 0) == []
    np.testing.assert_array_equal(arrays.observ[0][:, 0], [0, 0, 1, 0])
    np.testing.assert_array_equal(arrays.reward, [0, 0, 0.5, 0])
    assert step(host, arrays, 1) == [(START, {"seed": None, "options": None}, {"count": 2})]
    np.testing.assert_array_equal(arrays.final_observ[0][:, 0], [0, 0, 2, 0])
    np.testing.assert_array_equal(arrays.terminated, [False, False, True, False])


def test_environments_outside_of_the_mask_are_not_reset(attached):
    host, arrays = attached
    reset(host, arrays)
    step(host, arrays, 0)
    arrays.mask[:] = False
    host.send_reset()
    assert host.receive() == []
    assert arrays.observ[0][START, 0] == 1


def test_errors_name_the_row_and_the_host_takes_further_requests(attached):
    host, arrays = attached
    reset(host, arrays)
    with pytest.raises(EnvironmentRaisedError, match="ValueError: at 1") as caught:
        step(host, arrays, 2)
    assert caught.value.env_index == START
    reset(host, arrays)
    assert step(host, arrays, 0) == []


def test_asks_an_environment(attached):
    host, _ = attached
    assert host.ask("get", 0, "name") == host.ask("call", 0, "name") == "counter"
    host.ask("set", 0, "name", "another")
    assert host.ask("get", 0, "name") == "another"


def test_hands_out_environments_or_handles(attached):
    host, _ = attached
    assert host[0].name == "counter"
    assert isinstance(host[0], Counter) == isinstance(host, LocalHost)
    with pytest.raises(IndexError):
        _ = host[1]


def test_closing_again_does_nothing(attached):
    host, _ = attached
    host.ask_to_close()
    host.close()
    host.close()
