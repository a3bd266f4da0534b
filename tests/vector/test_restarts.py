import functools
import os
import signal
import time

import numpy as np
import pytest

from agents.errors import EnvironmentFailure, EnvironmentRaisedError, InvalidDataError
from agents.vector.process_batch import make_batch_env
from tests.faulty_toys import CommandedEnv, FaultyEnv

RAISE, DIE, STAY = CommandedEnv.RAISE, CommandedEnv.DIE, [0] * 4
# Where no process fails: seeds and arrays are the same for all hosts.
HERE = {"num_envs": 2, "processes": 1, "inline_share": True}


@pytest.fixture
def make():
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
    ("fault", "kwargs", "rows", "cause"),
    [
        (RAISE, {"inline_share": True}, [2], "ValueError: 2 failed"),
        (RAISE, {}, [2], "ValueError: 2 failed"),
        (DIE, {}, [2, 3], "was killed by SIGKILL"),
        (CommandedEnv.FORK_AND_DIE, {}, [2, 3], "was killed by SIGKILL"),
        (CommandedEnv.HANG, {"timeout": 0.8}, [2, 3], "did not reply within 0.8 s"),
    ],
)
def test_what_fails_is_restarted_in_its_rows(make, fault, kwargs, rows, cause):
    batch = make(**kwargs)
    batch.reset(seed=3)
    before, *_ = batch.step(STAY)
    with pytest.warns(UserWarning, match=f"restart number 1.*{cause}"):
        observ, reward, terminated, truncated, infos = batch.step([0, 0, fault, 0])
    restarted = np.isin(range(4), rows)
    np.testing.assert_array_equal(infos["restarted"], restarted)
    np.testing.assert_array_equal(truncated, restarted)
    assert not terminated.any()
    np.testing.assert_array_equal(reward, np.where(restarted, 0, 0.5))
    np.testing.assert_array_equal(np.stack(infos["final_obs"][rows]), before[rows])
    np.testing.assert_array_equal(observ[:, 1], np.where(restarted, 0, 2))  # Steps of the episode.
    seeds = batch.get_attr("seeds")
    assert [seeds[row] for row in rows] == [[3 + row] for row in rows]  # New ones, same seed.
    observ, reward, *_, infos = batch.step(STAY)
    np.testing.assert_array_equal(observ[:, 1], np.where(restarted, 1, 3))
    np.testing.assert_array_equal(reward, np.where(restarted, 0.25, 0.75))
    assert not infos["restarted"].any()
    [record] = batch.restarts.records
    assert list(record.rows) == rows
    assert cause in str(record.cause)


class SlowToConstructAgain(CommandedEnv):
    """Its constructor takes longer than a step may, from the second time on."""

    def __init__(self, name, folder):
        super().__init__(name)
        if (folder / name).exists():
            time.sleep(3)
        (folder / name).touch()


def test_constructing_again_may_take_as_long_as_a_start(make, tmp_path):
    batch = make(functools.partial(SlowToConstructAgain, folder=tmp_path), timeout=2)
    batch.reset(seed=3)
    with pytest.warns(UserWarning, match=r"restart number 1.*2 failed"):
        *_, infos = batch.step([0, 0, RAISE, 0])
    np.testing.assert_array_equal(infos["restarted"], [False, False, True, False])
    assert batch.restarts.count == 1


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

    failed, other_failed = [RAISE, 0], [0, RAISE]
    batch = make(**HERE)
    first, second = restarts(batch, failed, failed)
    assert len({first, second, 5, 6}) == 4 and batch[1].seeds == [6]
    assert restarts(batch, failed, failed) == [first, second]  # A seeded reset starts over.
    assert restarts(make(**HERE), other_failed, failed)[1] == first


def test_over_the_limit_the_first_cause_is_raised(make):
    batch = make(limit=2)
    batch.reset(seed=0)
    with pytest.warns(UserWarning, match="restart number"):
        batch.step([0, RAISE, 0, 0])
        batch.step([0, 0, 0, DIE])
    with pytest.raises(EnvironmentRaisedError, match="1 failed") as caught:
        batch.step([0, 0, RAISE, 0])
    assert caught.value.env_index == 1
    assert "The first of 3 failures within 600 s; 2 restarts are allowed." in str(caught.value)
    assert "1 process (was killed by SIGKILL)" in str(caught.value)


def test_an_environment_that_failed_several_times_counts_once_in_the_error(make):
    batch = make(limit=4)
    batch.reset(seed=0)
    batch.restarts.role = "evaluation environment"
    with pytest.warns(UserWarning, match=r"Evaluation environment \d: restart number"):
        for row in (1, 3, 3, 1):
            batch.step(np.eye(4, dtype=int)[row] * RAISE)
    with pytest.raises(EnvironmentRaisedError, match="1 failed") as caught:
        batch.step([0, 0, RAISE, 0])
    message = str(caught.value).splitlines()
    assert message[1].startswith("The first of 5 failures")
    assert message[2].startswith("Others that failed: 2 environments (")


def test_failures_before_the_window_do_not_count(make):
    batch = make(limit=1, restart_window=0.05, **HERE)
    batch.reset(seed=0)
    with pytest.warns(UserWarning, match="restart number"):
        for _ in range(4):
            time.sleep(0.06)
            batch.step([0, RAISE])
    assert batch.restarts.count == 4


class Unlucky(CommandedEnv):
    """Environment 0 fails in a call, raising or dying, as often as its file has words left."""

    def __init__(self, name, path, call):
        super().__init__(name)
        self._path, self._call = path, call
        self._fail_in("constructor")

    def reset(self, **kwargs):
        self._fail_in("reset")
        return super().reset(**kwargs)

    def _fail_in(self, call):
        lines = self._path.read_text().split() if self._path.exists() else []
        if self.name == "0" and call == self._call and lines:
            self._path.write_text(" ".join(lines[1:]))
            if lines[0] == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("no luck")


@pytest.mark.parametrize(
    ("faults", "call", "failures", "count"),
    [
        ([RAISE, 0, 0, 0], "constructor", "raise raise", 3),
        ([DIE, 0, 0, 0], "constructor", "raise", 2),
        ([DIE, 0, 0, 0], "reset", "raise", 2),
        ([RAISE, RAISE, 0, 0], "reset", "die raise", 3),
    ],
)
def test_constructors_and_resets_that_fail_again_are_tried_again(
    make, tmp_path, faults, call, failures, count
):
    path = tmp_path / "failures"
    batch = make(functools.partial(Unlucky, path=path, call=call), limit=count)
    batch.reset(seed=0)
    batch.step(STAY)
    path.write_text(failures)
    with pytest.warns(UserWarning, match="restart number"):
        observ, reward, _, truncated, infos = batch.step(faults)
    # All environments of a process that died, or else the one that raised.
    alone = (faults[0], call) == (RAISE, "constructor")
    restarted = np.arange(4) < (1 if alone else 2)
    np.testing.assert_array_equal(infos["restarted"], restarted)
    np.testing.assert_array_equal(truncated, restarted)
    np.testing.assert_array_equal(reward, np.where(restarted, 0, 0.5))
    np.testing.assert_array_equal(observ[:, 1], np.where(restarted, 0, 2))
    assert batch.restarts.count == count
    with pytest.raises(EnvironmentFailure):  # One more than the limit.
        batch.step(faults)


def test_resets_restart_environments_but_cut_no_episodes_of_others(make):
    batch = make()
    with pytest.warns(UserWarning, match="restart number 1.*KeyError"):
        observ, _ = batch.reset(seed=0, options={"raise": "2"})
    np.testing.assert_array_equal(observ[:, 1], [0, 0, 0, 0])
    *_, infos = batch.step(STAY)
    assert not infos["restarted"].any()
    os.kill(batch[0]._host.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentFailure, match="killed by SIGKILL"):
        batch.reset(options={"reset_mask": np.array([True, False, False, False])})


def test_invalid_data_is_a_reason_to_restart(make):
    def faulty(name):
        """An environment, the first of which fails in its third step."""
        return FaultyEnv(CommandedEnv(name), {"observ": np.nan}, 3 if name == "0" else 0)

    batch = make(faulty, **HERE)
    batch.reset(seed=0)
    with pytest.warns(UserWarning, match="restart number 1.*returned nan at"):
        for step in range(3):
            observ, *_, infos = batch.step([0, 0])
            assert infos["restarted"].tolist() == [step == 2, False]
    assert isinstance(batch.restarts.records[0].cause, InvalidDataError)
    assert np.isfinite(observ).all()


class BadlyBegun(CommandedEnv):
    """Its second episode begins with an observation that is invalid, after a valid info."""

    def reset(self, *, seed=None, options=None):
        observ, info = super().reset(seed=seed, options=options)
        is_second = self.name == "1" and len(self.seeds) == 2
        return observ + (np.nan if is_second else 0), {**info, **({"bad": 1} if is_second else {})}


def test_infos_of_a_row_that_failed_are_those_of_its_restart(make):
    batch = make(BadlyBegun, **HERE)
    batch.reset(seed=3)
    with pytest.warns(UserWarning, match="nan"):
        *_, infos = batch.step([CommandedEnv.END, CommandedEnv.END])
    assert infos["restarted"].tolist() == [False, True]
    assert "bad" not in infos
    assert infos["name"].tolist() == ["0", "1"]
    assert infos["final_info"]["_action"].tolist() == [True, False]


def test_arrays_that_the_caller_changes_are_its_own(make):
    batch = make(**HERE)
    for begin in (lambda: batch.reset(seed=3), lambda: batch.step([0, 0])):
        observ = begin()[0]
        before = observ.copy()
        observ[...] = 99
        with pytest.warns(UserWarning, match="restart number"):
            *_, infos = batch.step([0, RAISE])
        np.testing.assert_array_equal(infos["final_obs"][1], before[1])
