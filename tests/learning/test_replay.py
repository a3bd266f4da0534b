"""The replay against plain lists of steps."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import UsageError
from agents.learning.replay import Replay, Rows, check_memory

DISCOUNT = 0.9
END, TERMINATED, INVALID = 1, 2, 3


def pairs(numbers):
    """Observations of uint8 for numbers [...]."""
    return {"x": tf.constant(np.stack([numbers % 256, numbers // 256], -1), tf.uint8)}


class PlainReplay:
    """Episodes as lists of (observation, action, reward, kind) for each environment."""

    def __init__(self, num_envs):
        self.rows = [[] for _ in range(num_envs)]  # (observ, action, reward, starts, terminates)
        self.current = [None] * num_envs

    def add(self, env, observ, action, reward, kind, next_observ, after):
        self.rows[env].append((observ, action, reward, kind != INVALID, kind == TERMINATED))
        if kind in (END, TERMINATED):
            self.rows[env].append((next_observ, None, None, False, False))
        self.current[env] = after

    def cut(self):
        for rows, current in zip(self.rows, self.current, strict=True):
            rows.append((current, None, None, False, False))

    def transition(self, env, index, n):
        """Reward, observation after, and discount, of up to n steps from row `index`."""
        reward, factor = 0.0, 1.0
        rows = [*self.rows[env], (self.current[env], None, None, False, False)]
        for step in range(index, index + n):
            _, _, own, starts, terminates = rows[step]
            if not starts:
                return reward, rows[step][0], factor
            reward += factor * own
            factor *= DISCOUNT
            if terminates:
                return reward, rows[step + 1][0], 0.0
        return reward, rows[index + n][0], factor


@st.composite
def histories(draw):
    """Rollouts of kinds [T, B] of steps, and how often episodes are cut after each."""
    num_envs, steps = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    kinds = st.sampled_from([0, 0, 0, END, TERMINATED, INVALID])
    rollout = st.lists(
        st.lists(kinds, min_size=num_envs, max_size=num_envs), min_size=steps, max_size=steps
    )
    return draw(st.lists(st.tuples(rollout, st.integers(0, 2)), min_size=1, max_size=8))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(histories(), st.integers(1, 4), st.integers(8, 40))
def test_transitions_are_those_of_plain_lists(history, n, capacity):
    num_envs, steps = len(history[0][0][0]), len(history[0][0])
    capacity = max(capacity, 2 * steps) * num_envs
    replay = Replay(capacity, {"x": tf.zeros([num_envs, 2], tf.uint8)}, action_size=1)
    plain, number = PlainReplay(num_envs), 0
    now = np.zeros(num_envs, int)
    for kinds, cuts in history:
        kinds = np.array(kinds)  # [T, B]
        observ, after = np.zeros([2, steps, num_envs], int)
        for step in range(steps):
            for env in range(num_envs):
                number += 1
                observ[step, env] = now[env]
                ends = kinds[step, env] in (END, TERMINATED)
                after[step, env] = number
                number += ends
                now[env] = number
                plain.add(
                    env, observ[step, env], number, -number, kinds[step, env], after[step, env],
                    now[env],
                )  # fmt: skip
        actions = [[row[1] for row in rows if row[1]][-steps:] for rows in plain.rows]
        action = np.array(actions, np.float32).T  # [T, B]

        replay.add(
            pairs(observ),
            tf.constant(action[..., None]),
            tf.constant(-action),
            tf.constant(kinds == TERMINATED),
            tf.constant((kinds == END) | (kinds == TERMINATED) | (kinds == INVALID)),
            pairs(after),
            tf.constant(kinds != INVALID),
            pairs(now),
        )
        for _ in range(cuts):
            replay.cut()
            plain.cut()
            plain.current = [None] * num_envs  # Written with the next rollout.
        if cuts:
            number += 1
            now[:] = number
    starts = {
        (env, index)
        for env, rows in enumerate(plain.rows)
        for index in range(max(len(rows) - replay.num_rows + 1, 0), len(rows))
        if rows[index][3]
    }
    rows, valid = replay.draw(tf.random.Generator.from_seed(0), [100])
    written = replay.written() + bool(history[-1][1])  # Without a last cut.
    assert written.tolist() == [len(rows) for rows in plain.rows]
    drawn = set()
    found = tf.nest.map_structure(np.array, replay.transitions(rows, valid, DISCOUNT, n))
    rows, valid = Rows(*(part.numpy() for part in rows)), valid.numpy()
    for place in range(100):
        if not valid[place]:
            continue
        env = int(rows.env[place])
        # The latest row counted from the first one that has this place in the ring.
        latest = int(written[env]) - 1
        index = latest - (latest - int(rows.row[place])) % replay.num_rows
        drawn.add((env, index))
        observ, action, *_ = plain.rows[env][index]
        reward, next_observ, factor = plain.transition(env, index, n)
        seen, seen_next = (
            leaf["x"][place] @ np.array([1, 256]) for leaf in (found.observ, found.next_observ)
        )
        assert seen == observ
        assert int(found.action[place, 0]) == action
        assert float(found.reward[place]) == pytest.approx(reward, rel=1e-5)
        assert float(found.discount[place]) == pytest.approx(factor, rel=1e-5)
        if factor:
            assert seen_next == next_observ
    assert drawn <= starts
    if starts:
        assert drawn


def test_rows_without_a_step_have_finite_numbers():
    """A weight of 0 does not remove NaN from a sum."""
    replay = Replay(10, tf.zeros([1, 2]), action_size=1)
    observ = np.zeros([4, 1, 2], np.float32)
    observ[:3] = np.nan
    last, nan = tf.zeros([1, 2]), tf.fill([4, 1, 1], np.nan)
    no, valid = tf.zeros([4, 1], tf.bool), tf.constant([[False], [False], [False], [True]])
    replay.add(tf.constant(observ), nan, nan[..., 0], no, no, tf.constant(observ), valid, last)
    rows = Rows(tf.range(4, dtype=tf.int64), tf.zeros([4], tf.int64))
    found = replay.transitions(rows, valid[:, 0], 0.9, 3)
    assert np.isfinite(found.observ).all() and np.isfinite(found.next_observ).all()
    np.testing.assert_array_equal(found.weight, [0, 0, 0, 1])
    np.testing.assert_array_equal(found.action[:3], 0)


def test_draws_are_uniform_over_steps():
    replay = Replay(40, tf.zeros([2, 1]), action_size=1)
    done = np.zeros([10, 2], bool)
    done[::2] = True
    zeros = tf.zeros([10, 2, 1])
    for _ in range(3):
        replay.add(zeros, zeros, zeros[..., 0], tf.constant(done), tf.constant(done), zeros,
                   tf.ones([10, 2], tf.bool), zeros[0])  # fmt: skip
    rows, valid = replay.draw(tf.random.Generator.from_seed(1), [20_000])
    assert np.mean(valid) > 0.99
    places = rows.row.numpy()[valid] * 2 + rows.env.numpy()[valid]
    counts = np.bincount(places)
    counts = counts[counts > 0]
    assert 26 <= len(counts) <= 28  # Of 20 rows of each environment, a third are last observations.
    expected = counts.sum() / len(counts)
    assert np.all(np.abs(counts - expected) < 6 * np.sqrt(expected))


def test_rows_come_back_from_arrays():
    observ = {"image": tf.zeros([2, 3, 3, 1], tf.uint8), "x": tf.zeros([2, 2], tf.float64)}
    random = np.random.default_rng(0)
    one, other = (Replay(20, observ, action_size=3) for _ in range(2))
    steps = {
        "image": tf.constant(random.integers(0, 255, [7, 2, 3, 3, 1]), tf.uint8),
        "x": tf.constant(random.normal(size=[7, 2, 2])),
    }
    flags = tf.constant(random.random([7, 2]) < 0.3)
    for _ in range(3):
        one.add(
            steps, tf.random.normal([7, 2, 3]), tf.random.normal([7, 2]), flags, flags, steps,
            tf.ones([7, 2], tf.bool), tf.nest.map_structure(lambda leaf: leaf[0], steps),
        )  # fmt: skip
    stop = one.written() + 1
    start = np.maximum(stop - one.num_rows, 0)
    other.write(start, stop, one.read(start, stop))
    rows, valid = one.draw(tf.random.Generator.from_seed(0), [50])
    same, _ = other.draw(tf.random.Generator.from_seed(0), [50])
    left, right = (
        tf.nest.flatten(replay.transitions(Rows(*place), valid, 0.9, 3))
        for replay, place in ((one, rows), (other, same))
    )
    for first, second in zip(left, right, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16", "float64"]
)
def test_observations_keep_their_type(dtype):
    replay = Replay(8, tf.zeros([1, 2], dtype), action_size=1)
    observ = tf.cast(tf.constant([[[0, 1]], [[1, 0]], [[1, 1]]]), dtype)  # [T, 1, 2]
    flags, zeros = tf.zeros([3, 1], tf.bool), tf.zeros([3, 1])
    replay.add(observ, zeros[..., None], zeros, flags, flags, observ, ~flags, observ[0])
    found = replay.read(np.array([0]), np.array([4]))["observ/0"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, [[0, 1], [1, 0], [1, 1], [0, 1]])


def test_a_graph_that_is_not_compiled_reads_and_writes_in_place():
    """As networks for images do; copies of a replay would take time and memory for each batch."""
    observ = tf.zeros([1, 64, 64, 3], tf.uint8)
    steps, flags, zeros = tf.stack([observ] * 4), tf.zeros([4, 1], tf.bool), tf.zeros([4, 1])
    replay = Replay(2000, observ, action_size=1)
    rows = Rows(*tf.unstack(tf.zeros([2, 4], tf.int64)))

    @tf.function(autograph=False)
    def iterate():
        replay.add(steps, zeros[..., None], zeros, flags, flags, steps, ~flags, observ)
        return replay.transitions(rows, tf.ones([4], tf.bool), DISCOUNT, 1)

    tensors = [
        tensor
        for operation in iterate.get_concrete_function().graph.get_operations()
        for tensor in operation.outputs
    ]
    sizes = [tensor.shape.num_elements() or 0 for tensor in tensors if tensor.shape.rank]
    assert 4 * 64 * 64 * 3 <= max(sizes) < 2000 * 64 * 64


def test_more_than_the_machine_has_is_refused():
    image, action = spaces.Box(0, 255, (84, 84, 4), np.uint8), spaces.Box(-1, 1, (6,))
    assert check_memory(1000, image, action) == 1000 * (84 * 84 * 4 + 4 * 6 + 5)
    with pytest.raises(UsageError, match="replay_capacity: 1,000,000,000 steps take .* GB"):
        check_memory(10**9, image, action)


def test_more_than_a_control_group_has_is_refused():
    mount = Path("/sys/fs/cgroup")
    is_first_version = (mount / "memory").is_dir()
    group = (mount / "memory" if is_first_version else mount) / f"agents-{os.getpid()}"
    try:
        (group / "inner").mkdir(parents=True)
        limit = "memory.limit_in_bytes" if is_first_version else "memory.max"
        (group / limit).write_text(str(4096 * 10**6))
    except OSError:
        for folder in (group / "inner", group):
            if folder.is_dir():
                folder.rmdir()
        pytest.skip("control groups of memory can't be changed here")
    program = (
        "import gymnasium, numpy, os, pathlib, sys\n"
        "pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\n"
        "from agents.learning.replay import check_memory\n"
        "box = gymnasium.spaces.Box(-1, 1, (6,), numpy.float32)\n"
        "check_memory(10**8, box, box)\n"
    )
    try:
        procs = str(group / "inner" / "cgroup.procs")
        run = subprocess.run([sys.executable, "-c", program, procs], capture_output=True, text=True)
    finally:
        (group / "inner").rmdir()
        group.rmdir()
    assert "may use 4.1 GB of memory" in run.stderr
    assert "expected 77,283,018 or fewer" in run.stderr
