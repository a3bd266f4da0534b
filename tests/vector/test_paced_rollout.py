import math
import types

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from agents.errors import EnvironmentRaisedError
from agents.spaces import flatten
from agents.vector.exchange import Exchange
from agents.vector.paced_rollout import PacedRollout
from agents.workers.host import WorkerHost, raise_first
from agents.workers.shared_arrays import BatchArrays, Layout, Results
from tests.toys import COUNTS, fill


@pytest.fixture(scope="module", autouse=True)
def spinning():
    """Scripted hosts have no doorbell to sleep on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agents.workers.channel.SPIN_SECONDS", 60.0)
        yield


class ScriptedHost(WorkerHost):
    """A host whose steps are over when they were asked for so many times; without a process.

    It observes 1000 times its first row plus its steps; the reward is the action.

    Attributes:
      received: The actions it was given, [steps, N].
    """

    deadline = math.inf
    closed = True

    def __init__(self, arrays, rows, script, fails_at=()):
        self._rows, self._script, self._fails_at = slice(rows.start, rows.stop), script, fails_at
        self.rows = rows
        self.num_envs, self.received, self._checks = len(rows), [], 0
        self._my_arrays = arrays
        self.worker = types.SimpleNamespace(channel=None)

    def send_step(self, started=None):
        assert not self._checks, "it has not replied yet"
        self._checks = self._script[len(self.received) % len(self._script)]
        self.received.append(self._my_arrays.action[0][self._rows].copy())
        for array in self._my_arrays.observ:  # Half written until it replies.
            array[self._rows] = 99

    @property
    def is_busy(self):
        self._checks = max(self._checks - 1, 0)
        return self._checks > 0

    def receive(self, while_waiting=None):
        assert not self._checks
        # A process may read its actions until it replies.
        np.testing.assert_array_equal(self._my_arrays.action[0][self._rows], self.received[-1])
        steps, arrays = len(self.received), self._my_arrays
        for array, value in zip(
            arrays.observ, flatten(COUNTS, count(self._rows.start, steps)), strict=True
        ):
            array[self._rows] = value
        arrays.reward[self._rows] = self.received[-1]
        arrays.terminated[self._rows] = steps % 3 == 0
        if steps in self._fails_at:
            raise EnvironmentRaisedError("It failed.", "", self._rows.start, "ValueError")
        return [(self._rows.start, {"steps": steps}, None)]


def count(row, steps):
    return fill(COUNTS, 1000 * row + steps)


def make_rollout(scripts, steps, wait_for, size=1, fails_at=(), handle=None):
    """A rollout of hosts with `size` environments each."""
    num_envs = size * len(scripts)
    layout = Layout(num_envs, COUNTS, COUNTS["number"])
    arrays = BatchArrays(layout)
    hosts = [
        ScriptedHost(arrays, range(size * i, size * (i + 1)), script, fails_at if i == 1 else ())
        for i, script in enumerate(scripts)
    ]

    def refuse(failures, rows):
        raise_first(failures)

    exchange = Exchange(hosts, blocking=False)
    rollout = PacedRollout(
        exchange, arrays, arrays.copy_results(), steps, wait_for, handle or refuse
    )
    return rollout, hosts, layout


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(strategies.data())
def test_every_environment_makes_its_own_steps_in_any_order_of_replies(data):
    num_hosts, size = data.draw(strategies.integers(1, 5)), data.draw(strategies.integers(1, 2))
    steps = data.draw(strategies.integers(1, 8))
    wait_for = data.draw(strategies.floats(0.01, 1))
    script = strategies.lists(strategies.integers(1, 9), min_size=1, max_size=8)
    scripts = [data.draw(script) for _ in range(num_hosts)]
    rollout, hosts, layout = make_rollout(scripts, steps, wait_for, size)
    num_envs, all_infos = num_hosts * size, []
    ready = np.ones(num_envs, bool)
    while not rollout.is_complete:
        before = rollout.step.copy()
        # Only rows that are ready get an action that counts.
        actions = np.where(ready & (before < steps), 100 * np.arange(num_envs) + before, 77_777)
        sent = np.unique((np.arange(num_envs) // size)[before < steps])
        block, infos = rollout.turn([actions])
        all_infos += infos
        ready = rollout.step > before
        np.testing.assert_array_equal(block[layout.size :].view(np.int32), rollout.step)
        assert ready[::size].sum() >= np.ceil(wait_for * len(sent) - 1e-9)
        latest = Results(layout, block)
        for row in range(num_envs):
            first = row // size * size
            if rollout.step[row]:
                expected = flatten(COUNTS, count(first, rollout.step[row]))
                for leaf, value in zip(latest.observ, expected, strict=True):
                    np.testing.assert_array_equal(leaf[row], value)
    np.testing.assert_array_equal(rollout.step, steps)
    wanted = 100 * np.arange(num_envs) + np.arange(steps)[:, None]  # [T, B]
    for index, host in enumerate(hosts):
        rows = slice(size * index, size * (index + 1))
        np.testing.assert_array_equal(np.array(host.received), wanted[:, rows])
    for step, row in np.ndindex(steps, num_envs):
        results = Results(layout, rollout.results[step])
        expected = flatten(COUNTS, count(row // size * size, step + 1))
        for leaf, value in zip(results.observ, expected, strict=True):
            np.testing.assert_array_equal(leaf[row], value)
        assert results.reward[row] == wanted[step, row]
        assert results.terminated[row] == ((step + 1) % 3 == 0)
    numbers = sorted((row, info["steps"]) for row, info, _ in all_infos)
    assert numbers == [(size * h, step + 1) for h in range(num_hosts) for step in range(steps)]


@pytest.mark.parametrize(
    ("wait_for", "turns"), [(1.0, [10]), (0.7, [7, 7]), (0.5, [5, 5]), (0.01, [1, 1])]
)
def test_a_turn_waits_for_a_fraction_of_the_hosts_under_way(wait_for, turns):
    rollout, *_ = make_rollout([[1 + 5 * i] for i in range(10)], 20, wait_for)
    for expected in turns:
        before = rollout.step.copy()
        rollout.turn([np.zeros(10, int)])
        assert (rollout.step > before).sum() == expected


def test_a_failure_is_handled_with_the_rows_that_were_stepped():
    handled = []

    def handle(failures, rows):
        handled.append(([failure.host.rows for failure in failures], sorted(rows)))
        return [(2, {"restarted": True}, {})]

    rollout, *_ = make_rollout([[1], [1], [8]], 3, 0.5, 2, fails_at=(2,), handle=handle)
    infos = [rollout.turn([np.zeros(6, int)])[1] for _ in range(2)]
    assert handled == [([range(2, 4)], [0, 1, 2, 3])]
    assert (2, {"restarted": True}, {}) in infos[1]
    while not rollout.is_complete:
        rollout.turn([np.zeros(6, int)])
    assert len(handled) == 1
    rollout, *_ = make_rollout([[1], [1], [8]], 3, 0.5, fails_at=(1,))  # Without restarts.
    with pytest.raises(EnvironmentRaisedError, match="It failed"):
        rollout.turn([np.zeros(3, int)])
