import contextlib
import functools
import os
import signal
import time

import numpy as np
import pytest

from agents.errors import EnvironmentFailure, EnvironmentRaisedError, InvalidDataError
from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env
from agents.workers.host import LocalHost
from tests.faulty_toys import CommandedEnv, FaultyEnv

STAY = [0] * 4
# Where no process fails: seeds and arrays are the same for all hosts.
HERE = {"num_envs": 2, "processes": 1, "inline_share": True}


@pytest.fixture
def make(request):
    """Makes batches of commanded environments in two processes; closes them."""
    batches = []

    def make(constructor=CommandedEnv, num_envs=4, limit=10, **kwargs):
        constructors = [functools.partial(constructor, name=str(i)) for i in range(num_envs)]
        kwargs = {"processes": 2, "timeout": 5, "restart_limit": limit, **kwargs}
        batches.append(make_batch_env(constructors, **kwargs))
        return batches[-1]

    yield make
    for batch in batches:
        batch.close()


@pytest.mark.parametrize(
    ("fault", "rows", "cause"),
    [
        (CommandedEnv.RAISE, [1], "ValueError: 1 failed"),
        (CommandedEnv.DIE, [0, 1], "was killed by SIGKILL"),
        (CommandedEnv.FORK_AND_DIE, [0, 1], "was killed by SIGKILL"),
        (CommandedEnv.HANG, [0, 1], "did not reply within 0.8 s"),
    ],
)
def test_what_fails_is_restarted_in_its_rows(make, fault, rows, cause):
    batch = make(timeout=0.8)
    batch.reset(seed=3)
    before, *_ = batch.step(STAY)
    with pytest.warns(UserWarning, match=f"restart number 1.*{cause}"):
        observ, reward, terminated, truncated, infos = batch.step([0, fault, 0, 0])
    restarted = np.isin(range(4), rows)
    np.testing.assert_array_equal(infos["restarted"], restarted)
    np.testing.assert_array_equal(truncated, restarted)
    assert not terminated.any()
    np.testing.assert_array_equal(reward, np.where(restarted, 0, 0.5))
    np.testing.assert_array_equal(np.stack(infos["final_obs"][rows]), before[rows])
    np.testing.assert_array_equal(observ[:, 1], np.where(restarted, 0, 2))  # Steps of the episode.
    seeds = [env.seeds for env in batch]
    assert [seeds[row] for row in rows] == [[3 + row] for row in rows]  # New ones, same seed.
    observ, reward, *_, infos = batch.step(STAY)
    np.testing.assert_array_equal(observ[:, 1], np.where(restarted, 1, 3))
    np.testing.assert_array_equal(reward, np.where(restarted, 0.25, 0.75))
    assert not infos["restarted"].any()
    [record] = batch.restarts.records
    assert list(record.rows) == rows
    assert cause in str(record.cause)


def test_seeds_of_restarts_follow_from_seed_episode_and_own_restarts_only(make):
    def restarts(batch, *actions):
        """Seeds of the second episode's restarts of environment 0."""
        batch.reset(seed=[5, 6])
        batch.step([CommandedEnv.END, 0])
        seeds = []
        with pytest.warns(UserWarning, match="restart number"):
            for action in actions:
                batch.step(action)
                seeds.append(batch[0].seeds[0])
        return seeds

    failed, other_failed = [CommandedEnv.RAISE, 0], [0, CommandedEnv.RAISE]
    batch = make(**HERE)
    first, second = restarts(batch, failed, failed)
    assert len({first, second, 5, 6}) == 4 and batch[1].seeds == [6]
    assert restarts(batch, failed, failed) == [first, second]  # A seeded reset starts over.
    assert restarts(make(**HERE), other_failed, failed)[1] == first


def test_over_the_limit_the_first_cause_is_raised(make):
    batch = make(limit=2)
    batch.reset(seed=0)
    with pytest.warns(UserWarning, match="restart number"):
        batch.step([0, CommandedEnv.RAISE, 0, 0])
        batch.step([0, 0, 0, CommandedEnv.DIE])
    with pytest.raises(EnvironmentRaisedError, match="1 failed") as caught:
        batch.step([0, 0, CommandedEnv.RAISE, 0])
    assert caught.value.env_index == 1
    assert "The first of 3 failures within 600 s; 2 restarts are allowed." in str(caught.value)
    assert "1 process (was killed by SIGKILL)" in str(caught.value)


def test_failures_before_the_window_do_not_count(make):
    batch = make(limit=1, restart_window=0.05, **HERE)
    batch.reset(seed=0)
    with pytest.warns(UserWarning, match="restart number"):
        for _ in range(4):
            time.sleep(0.06)
            batch.step([0, CommandedEnv.RAISE])
    assert batch.restarts.count == 4


class Unlucky(CommandedEnv):
    """Its constructor fails from the second time on, as often as the file has lines left."""

    def __init__(self, name, path):
        super().__init__(name)
        if name == "1" and os.path.exists(path):
            lines = open(path).readlines()
            open(path, "w").writelines(lines[1:])
            if lines:
                raise OSError("no display")


@pytest.mark.parametrize("fault", [CommandedEnv.RAISE, CommandedEnv.DIE])
def test_a_constructor_that_fails_again_is_tried_again(make, fault, tmp_path):
    path = tmp_path / "failures"
    batch = make(functools.partial(Unlucky, path=str(path)), limit=3)
    batch.reset(seed=0)
    path.write_text("1\n2\n")
    with pytest.warns(UserWarning, match="restart number"):
        *_, infos = batch.step([0, fault, 0, 0])
    assert infos["restarted"][1] and not infos["restarted"][2:].any()
    assert batch.restarts.count == 3
    with pytest.raises(EnvironmentFailure):
        batch.step([0, fault, 0, 0])


class UnluckyReset(CommandedEnv):
    """Its reset raises, or kills the process, as often as the file has lines left."""

    def __init__(self, name, path):
        super().__init__(name)
        self._path = path

    def reset(self, **kwargs):
        lines = open(self._path).readlines() if os.path.exists(self._path) else []
        if self.name == "0" and lines:
            open(self._path, "w").writelines(lines[1:])
            if lines[0] == "die\n":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("no luck")
        return super().reset(**kwargs)


@pytest.mark.parametrize(
    ("faults", "failures", "count", "restarted"),
    [
        ([CommandedEnv.DIE, 0, 0, 0], ["raise"], 2, [0, 1]),
        ([CommandedEnv.RAISE, CommandedEnv.RAISE, 0, 0], ["die"], 2, [0, 1]),
        ([CommandedEnv.RAISE, 0, 0, 0], ["die", "raise"], 3, [0, 1]),
        ([CommandedEnv.RAISE, 0, 0, 0], ["raise"], 2, [0]),
    ],
)
def test_all_that_was_reset_is_restarted_if_resets_fail_again(
    make, tmp_path, faults, failures, count, restarted
):
    path = tmp_path / "failures"
    batch = make(functools.partial(UnluckyReset, path=str(path)))
    batch.reset(seed=0)
    batch.step(STAY)
    path.write_text("".join(f"{failure}\n" for failure in failures))
    with pytest.warns(UserWarning, match="restart number"):
        observ, reward, _, truncated, infos = batch.step(faults)
    expected = np.isin(range(4), restarted)
    np.testing.assert_array_equal(infos["restarted"], expected)
    np.testing.assert_array_equal(truncated, expected)
    np.testing.assert_array_equal(reward, np.where(expected, 0, 0.5))
    np.testing.assert_array_equal(observ[:, 1], np.where(expected, 0, 2))
    assert batch.restarts.count == count


def test_environments_restart_while_they_are_reset(make):
    batch = make()
    with pytest.warns(UserWarning, match="restart number 1.*KeyError"):
        observ, _ = batch.reset(seed=0, options={"raise": "2"})
    np.testing.assert_array_equal(observ[:, 1], [0, 0, 0, 0])
    *_, infos = batch.step(STAY)
    assert not infos["restarted"].any()


def test_a_reset_of_some_does_not_cut_the_episodes_of_others(make):
    batch = make()
    batch.reset(seed=0)
    batch.step(STAY)
    os.kill(batch._hosts[0].pid, signal.SIGKILL)
    with pytest.raises(EnvironmentFailure, match="killed by SIGKILL"):
        batch.reset(options={"reset_mask": np.array([True, False, False, False])})


def test_environments_of_this_process_restart():
    hosts = [LocalHost(functools.partial(CommandedEnv, str(index)), index) for index in range(3)]
    batch = BatchEnv(hosts, blocking=True, restart_limit=5)
    batch.reset(seed=0)
    before, *_ = batch.step([0, 0, 0])
    with pytest.warns(UserWarning, match="Environment 1: restart number 1"):
        observ, *_, infos = batch.step([0, CommandedEnv.RAISE, CommandedEnv.END])
    np.testing.assert_array_equal(infos["restarted"], [False, True, False])
    np.testing.assert_array_equal(infos["final_obs"][1], before[1])
    np.testing.assert_array_equal(observ[:, 1], [2, 0, 0])


def test_invalid_data_is_a_reason_to_restart(make):
    constructor = functools.partial(_faulty, {"observ": np.nan}, 3)
    batch = make(constructor, **HERE)
    batch.reset(seed=0)
    with pytest.warns(UserWarning, match="restart number 1.*returned nan at"):
        for step in range(3):
            observ, *_, infos = batch.step([0, 0])
            assert infos["restarted"].tolist() == [step == 2, False]
    assert isinstance(batch.restarts.records[0].cause, InvalidDataError)
    assert np.isfinite(observ).all()


def _faulty(fault, countdown, name):
    """An environment, the first of which fails in its step number `countdown`."""
    return FaultyEnv(CommandedEnv(name), fault, countdown if name == "0" else 0)


class BadlyBegun(CommandedEnv):
    """Its second episode begins with an observation that is invalid, after a valid info."""

    def reset(self, *, seed=None, options=None):
        observ, info = super().reset(seed=seed, options=options)
        is_second = len(self.seeds) == 2
        return observ + (np.nan if is_second else 0), {**info, **({"bad": 1} if is_second else {})}


@pytest.mark.parametrize("host", ["inline", "process"])
def test_infos_of_a_row_that_failed_are_those_of_its_restart(host):
    constructors = [CommandedEnv, BadlyBegun]
    batch = (
        BatchEnv([LocalHost(constructors)], True, restart_limit=1)
        if host == "inline"
        else make_batch_env(constructors, 1, restart_limit=1)
    )
    with contextlib.closing(batch):
        batch.reset(seed=3)
        with pytest.warns(UserWarning, match="nan"):
            *_, infos = batch.step([CommandedEnv.END, CommandedEnv.END])
    assert infos["restarted"].tolist() == [False, True]
    assert "bad" not in infos
    assert infos["name"].tolist() == ["one", "one"]
    assert infos["final_info"]["_action"].tolist() == [True, False]


def test_arrays_that_the_caller_changes_are_its_own(make):
    batch = make(**HERE)
    for begin in (lambda: batch.reset(seed=3), lambda: batch.step([0, 0])):
        observ = begin()[0]
        before = observ.copy()
        observ[...] = 99
        with pytest.warns(UserWarning, match="restart number"):
            *_, infos = batch.step([0, CommandedEnv.RAISE])
        np.testing.assert_array_equal(infos["final_obs"][1], before[1])
