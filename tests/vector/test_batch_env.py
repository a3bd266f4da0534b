import contextlib
import copy
import functools
import gc
import sys

import cloudpickle
import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import (
    AlreadyPendingCallError,
    ClosedEnvironmentError,
    NoAsyncCallError,
    ResetNeeded,
)
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from hypothesis import strategies

from agents.attr_dict import AttrDict
from agents.environments import wrappers
from agents.errors import EnvironmentRaisedError, InvalidActionError
from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env
from agents.workers.external_process import ExternalProcess
from agents.workers.host import LocalHost
from tests.faulty_toys import CommandedEnv
from tests.space_strategies import STRUCTURES
from tests.toys import THREE_CHOICES, CountingEnv, RandomEnv
from tests.vector.batches import batch_of

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def info_of(steps):
    """Infos in every step, those of a reset differ from the others."""
    if steps == 0:
        return {"steps": 0, "is_first": True, "name": "first"}
    return {"steps": steps, "nested": {"array": np.full(2, steps)}}


# Steps, as Gymnasium's SyncVectorEnv makes them.

sampler = functools.partial(RandomEnv, durations=(1, 3), info=info_of)


def assert_steps_of_gymnasium(batch, constructors, seed, steps=12):
    """Compares with the same seeds and actions."""
    oracle = SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)
    assert batch.observation_space == oracle.observation_space
    assert batch.action_space == oracle.action_space
    np.testing.assert_equal(*(env.reset(seed=seed) for env in (batch, oracle)))
    batch.action_space.seed(seed)
    for _ in range(steps):
        action = batch.action_space.sample()
        mine, theirs = batch.step(action), oracle.step(action)
        np.testing.assert_equal(mine[:4], theirs[:4])
        assert batch.observation_space.contains(mine[0])
        assert [array.dtype for array in mine[1:4]] == [np.float64, bool, bool]
        assert_equal_infos(mine[4], theirs[4], done=mine[2] | mine[3])
    oracle.close()


def assert_equal_infos(mine, theirs, done):
    if not done.any():
        assert mine == {}
        return
    np.testing.assert_array_equal(mine["_final_obs"], done)
    np.testing.assert_equal(mine["final_info"], theirs["final_info"])
    np.testing.assert_array_equal(mine["_final_info"], done)
    for row in np.flatnonzero(done):
        np.testing.assert_equal(mine["final_obs"][row], theirs["final_obs"][row])
        for key in ("steps", "is_first", "name"):  # Of the reset.
            assert mine[key][row] == theirs[key][row]
            assert mine[f"_{key}"][row]


@hypothesis.given(
    STRUCTURES,
    STRUCTURES,
    strategies.sampled_from(["terminated", "truncated", "both"]),
    strategies.integers(0, 99),
)
@hypothesis.settings(deadline=None, max_examples=40)
@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
def test_steps_equal_those_of_gymnasium(observation_space, action_space, ending, seed):
    make = functools.partial(sampler, observation_space, action_space, ending=ending)
    with batch_of([make] * 3, "inline") as batch:
        assert_steps_of_gymnasium(batch, [make] * 3, seed)


def test_steps_in_processes_equal_those_of_gymnasium():
    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (4, 4, 3), np.uint8),
        two=spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (), np.float64)]),
    )
    action_space = spaces.Dict(
        a=spaces.Box(-1, 1, (2,), np.float32), b=spaces.MultiDiscrete([3, 4])
    )
    make = functools.partial(sampler, observation_space, action_space)
    with contextlib.closing(make_batch_env([make] * 5, 3, inline_share=True)) as batch:
        assert_steps_of_gymnasium(batch, [make] * 5, seed=3, steps=30)


def test_gymnasiums_vector_wrappers_apply():
    record = gymnasium.wrappers.vector.RecordEpisodeStatistics
    oracle = record(SyncVectorEnv([sampler] * 3, autoreset_mode=AutoresetMode.SAME_STEP))
    with batch_of([sampler] * 3, "inline") as batch:
        recorded = record(batch)
        for env in (recorded, oracle):
            env.reset(seed=0)
        recorded.action_space.seed(0)
        for _ in range(20):
            action = recorded.action_space.sample()
            infos, expected = recorded.step(action)[4], oracle.step(action)[4]
            assert ("episode" in infos) == ("episode" in expected)
            if "episode" in infos:
                for name in "lr":
                    np.testing.assert_array_equal(infos["episode"][name], expected["episode"][name])
        assert recorded.episode_count == oracle.episode_count > 3
        np.testing.assert_array_equal(recorded.return_queue, oracle.return_queue)
    oracle.close()


def test_results_do_not_change(playground):
    results = [playground.reset()]
    results += [
        playground.step(np.array([0, 0, CommandedEnv.END if step == 2 else 0])) for step in range(5)
    ]
    copies = cloudpickle.loads(cloudpickle.dumps(results))
    for _ in range(3):
        playground.step(np.array([CommandedEnv.END, 0, 0]))
    assert data_equivalence(results, copies)
    assert [result[0][0, 1] for result in results] == [0, 1, 2, 3, 4, 5]
    assert results[3][4]["final_obs"][2][1] == 3


def requests(batch, actions):
    """Calls for which a batch must be open and idle."""
    return (
        lambda: batch.step(actions),
        lambda: batch.step_async(actions),
        batch.reset,
        lambda: batch.call("reset"),
        lambda: batch.get_attr("actions"),
        lambda: batch.set_attr("actions", []),
        lambda: batch.start_rollout(2),
        lambda: batch.np_random_seed,
    )


def test_steps_are_started_and_waited_for(playground):
    playground.reset()
    with pytest.raises(NoAsyncCallError, match="step_async"):
        playground.step_wait()
    for ending, counts in ((0, [1, 1, 1]), (CommandedEnv.END, [2, 0, 2]), (0, [3, 1, 3])):
        playground.step_async([0, ending, 0])
        for call in requests(playground, [0, 0, 0]):
            with pytest.raises(AlreadyPendingCallError, match="step_wait"):
                call()
        observ, _, terminated, _, infos = playground.step_wait()
        assert observ[:, 1].tolist() == counts
        assert terminated.tolist() == [False, ending > 0, False]
        assert ("final_obs" in infos) == (ending > 0)
    with pytest.raises(InvalidActionError):
        playground.step_async([0])
    playground.step([0, 0, 0])


def test_a_closed_batch_says_so_and_a_step_under_way_does_not_keep_it_open():
    with batch_of([CommandedEnv] * 2, "one") as batch:
        batch.reset()
        batch.step_async([0, 0])
    for call in requests(batch, [0, 0]):
        with pytest.raises(ClosedEnvironmentError, match="after `close`"):
            call()


# Resets.


def test_environments_must_be_reset_and_may_keep_their_actions(playground):
    with pytest.raises(EnvironmentRaisedError):
        playground.reset(options={"raise": "a"})
    with pytest.raises(ResetNeeded, match="Environment 0"):
        playground.step([0, 0, 0])
    playground.reset(indices=[0, 2])
    with pytest.raises(ResetNeeded, match="Environment 1"):
        playground.step([0, 0, 0])
    playground.reset(indices=[1])
    playground.set_attr("actions", [[], [], []])
    for action in (8, 9, np.int64(0)):
        playground.step([action, action, action])
    assert playground.get_attr("actions") == ([8, 9, 0],) * 3
    assert all(isinstance(action, np.int64) for action in playground.get_attr("actions")[0])


MASKS = strategies.lists(strategies.booleans(), min_size=3, max_size=3)
RUNS = strategies.lists(
    strategies.tuples(strategies.integers(0, 3), MASKS, strategies.booleans()), max_size=5
)


@hypothesis.given(RUNS)
@hypothesis.settings(deadline=None, max_examples=25)
def test_resets_by_mask_and_by_indices(playground, runs):
    playground.reset()
    count = np.zeros(3)
    for steps, mask, by_indices in runs:
        for _ in range(steps):
            observ = playground.step(np.zeros(3, int))[0]
            count += 1
            np.testing.assert_array_equal(observ[:, 1], count)
        mask = np.array(mask)
        count[mask] = 0
        if by_indices:
            rows = np.flatnonzero(mask)[::-1]
            observ, _ = playground.reset(indices=rows - 3 if steps else rows)
            np.testing.assert_array_equal(observ[:, 1], count[rows])
        else:
            observ, _ = playground.reset(options={"reset_mask": mask})
            np.testing.assert_array_equal(observ[:, 1], count)


def test_seeds_and_options_reach_the_environments_that_are_reset(playground):
    playground.set_attr("seeds", [[], [], []])
    playground.reset(seed=5)
    playground.reset(seed=[7, None, np.int64(9)])
    assert playground.np_random_seed == (7, 6, 9)
    options = {"size": 2, "reset_mask": np.array([False, True, True])}
    _, infos = playground.reset(seed=1, options=options)
    assert options.keys() == {"size", "reset_mask"}  # The caller's are unchanged.
    _, plain = playground.reset()
    assert playground.get_attr("seeds") == ([5, 7, None], [6, None, 2, None], [7, 9, 3, None])
    assert infos["options"]["size"].tolist() == [0, 2, 2]
    assert infos["options"]["_size"].tolist() == [False, True, True]
    assert infos["_options"].tolist() == [False, True, True]
    assert plain["options"].tolist() == [None] * 3


OPTIONS = [  # Those of a reset, and those that each environment gets.
    (None, None),
    ({}, {}),
    ({"reset_mask": np.array([True, True, True])}, {}),
    ({"reset_mask": np.array([False, True, False])}, {}),
    ({"reset_mask": np.array([False, True, False]), "size": 2}, {"size": 2}),
    (AttrDict(size=2), AttrDict(size=2)),
    (AttrDict(size=2, reset_mask=np.array([False, True, False])), AttrDict(size=2)),
]


@pytest.mark.parametrize("backend", ["inline", "one"])
def test_environments_get_the_options_that_gymnasium_gives(backend):
    make = [functools.partial(Listing, functools.partial(CommandedEnv, name)) for name in "abc"]
    with contextlib.closing(SyncVectorEnv(make)) as envs, batch_of(make, backend) as batch:
        envs.reset(), batch.reset()
        for options, expected in OPTIONS:
            _, infos = envs.reset(options=copy.copy(options))
            _, own = batch.reset(options=options)
            assert data_equivalence(own, infos)
            assert own["options"][1] == [type(expected).__name__, expected and dict(expected)]


class Listing(gymnasium.Wrapper):
    """The options of resets are in a list in the infos, where they are not joined."""

    def __init__(self, make):
        super().__init__(make())

    def reset(self, *, seed=None, options=None):
        observ, info = self.env.reset(seed=seed, options=options)
        return observ, {"options": [type(options).__name__, options and dict(options)]}


INVALID_RESETS = [
    ({"seed": [1, 2]}, "batch of 3 environments needs 3 seeds, got 2"),
    ({"seed": -1}, r"negative, got \[-1, 0, 1\]"),
    ({"seed": [1, -4, None]}, r"negative, got \[1, -4, None\]"),
    ({"indices": [3]}, r"\[3\] must be in \[-3, 3\)"),
    ({"indices": [0, -4]}, r"\[0, -4\] must be in \[-3, 3\)"),
    ({"indices": [0], "options": {"reset_mask": np.ones(3, bool)}}, "not by both"),
    ({"options": {"reset_mask": np.ones(2, bool)}}, r"bool \[3\], got bool \[2\]"),
    ({"options": {"reset_mask": np.ones(3)}}, r"bool \[3\], got float64 \[3\]"),
]


def test_invalid_resets_raise_and_reset_nothing(playground):
    playground.reset()
    playground.step([0, 0, 0])
    for kwargs, message in INVALID_RESETS:
        with pytest.raises(ValueError, match=message):
            playground.reset(**kwargs)
    assert playground.step([0, 0, 0])[0][:, 1].tolist() == [2, 2, 2]


# Actions.

DISCRETE = spaces.Discrete(8, start=-2)
BOX = spaces.Box(-0.7, 0.7, (2,), np.float32)
STRUCTURE = spaces.Dict(steer=spaces.Discrete(2), gear=spaces.Discrete(3))
INVALID_ACTIONS = [
    (DISCRETE, [0, 0, 6], "action 6 of environment 2 is not in Discrete"),
    (DISCRETE, [0, -3, 9], "action -3 of environment 1"),
    (DISCRETE, [0, 0], "3 environments needs as many actions, got 2"),
    (DISCRETE, "ab", "as many actions, got 2"),
    (DISCRETE, 0, r"Actions of type int: expected an array \[3\]"),
    (DISCRETE, None, r"Actions of type NoneType: expected an array \[3\]"),
    (DISCRETE, {"a": 0, "b": 1}, r"Actions of type dict: expected an array \[3\]"),
    (DISCRETE, [0, [1, 2], 0], r"action of environment 1 has shape \(2,\), expected \(\)"),
    (DISCRETE, np.zeros((3, 1), int), r"action of environment 0 has shape \(1,\), expected \(\)"),
    (DISCRETE, [0.5, 0, 0], "Expected actions of Discrete.*, got float64"),
    (DISCRETE, ["a", "b", "c"], "Expected actions of Discrete.*, got <U1"),
    (DISCRETE, [None] * 3, "Expected actions of Discrete.*, got object"),
    (BOX, np.zeros((3, 2), complex), "Expected actions of Box.*, got complex128"),
    (BOX, [[0, 0], [0, np.nan], [0, 0]], r"\[ *0\. +nan\] of environment 1 is not in Box"),
    (BOX, [[0, 0], [0, 0], [-np.inf, 0]], "of environment 2"),
    (BOX, [[1e300, 0], [0, 0], [0, 0]], "of environment 0"),
    (BOX, [[0, 0], [0.71, 0], [0, 0]], "of environment 1"),
    (STRUCTURE, {"steer": [1, 1, 1], "gear": [2, 3, 0]}, "action 3 of environment 1"),
    *((STRUCTURE, actions, "steer") for actions in (0, [0] * 3, {"steer": [0] * 3}, ({},), None)),
]
VALID_SPACES = [
    DISCRETE,
    BOX,
    STRUCTURE,
    spaces.Box(-np.inf, np.inf, (), np.float64),
    spaces.Box(0, 255, (2, 3), np.uint8),
    spaces.MultiDiscrete([[3, 4]], start=[[-1, 2]]),
    spaces.MultiBinary(4),
]


@pytest.mark.parametrize(("space", "actions", "message"), INVALID_ACTIONS)
def test_invalid_actions_raise_and_step_nothing(space, actions, message):
    batch = BatchEnv([CountingEnv(action_space=space) for _ in range(3)], blocking=True)
    batch.reset()
    before = [array.copy() for array in batch._arrays.action]
    with pytest.raises(InvalidActionError, match=message):
        batch.step(actions)
    np.testing.assert_equal(batch._arrays.action, before)  # No leaf has changed.
    assert batch.step(batch.action_space.sample())[0]["number"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("space", VALID_SPACES, ids=str)
def test_actions_of_the_space_reach_the_environments(space):
    batch = BatchEnv([CountingEnv(action_space=space) for _ in range(3)], blocking=True)
    batch.reset()
    batch.action_space.seed(0)
    for _ in range(20):
        actions = batch.action_space.sample()
        batch.step(actions)
        batch.step(actions.tolist() if isinstance(actions, np.ndarray) else actions)
        for row, env in enumerate(batch):
            for taken in env.actions[-2:]:
                assert space.contains(taken)
                given = (
                    {key: part[row] for key, part in actions.items()}
                    if space is STRUCTURE
                    else actions[row]
                )
                assert data_equivalence(taken, given) or np.array_equal(taken, given)
    if space is BOX:
        batch.step(np.full((3, 2), np.nextafter(0.7, 1)))  # Slightly more than the float32 bound.
        assert batch[0].actions[-1].dtype == np.float32


# Environments of a batch.


@pytest.mark.parametrize(
    ("kinds", "settings", "message"),
    [
        ([], {"blocking": True}, "at least one environment, got none"),
        (["object"], {}, "can't be stepped in parallel: pass blocking=True"),
        (["local"], {}, "can't be stepped in parallel: pass blocking=True"),
        (["object", "process"], {}, "can't be stepped in parallel: pass blocking=True"),
        (["object"], {"blocking": True, "restart_limit": 1}, "pass LocalHost"),
        (["local"], {"blocking": True, "wait_for": 0.0}, "above 0 and at most 1, got 0.0"),
        (["local"], {"blocking": True, "wait_for": 1.5}, "above 0 and at most 1, got 1.5"),
        (["process"], {"blocking": True, "wait_for": 0.5}, "in processes.*got wait_for 0.5"),
        (["process", "local"], {"wait_for": 0.5}, "in processes.*got wait_for 0.5"),
    ],
)
def test_environments_that_make_no_batch_are_refused(kinds, settings, message):
    makers = {"object": CommandedEnv, "local": lambda: LocalHost(CommandedEnv)}
    makers["process"] = lambda: ExternalProcess(CommandedEnv)
    envs = [makers[kind]() for kind in kinds]
    with pytest.raises(ValueError, match=message):
        BatchEnv(envs, **settings)
    for env in envs:
        env.close()


def test_every_kind_of_environment_is_stepped_in_one_batch():
    mine = CommandedEnv("a")
    envs = [mine, LocalHost(lambda: CommandedEnv("b")), ExternalProcess(lambda: CommandedEnv("c"))]
    envs.append(ExternalProcess([lambda: CommandedEnv("d"), CommandedEnv]))
    with contextlib.closing(BatchEnv(envs, blocking=True)) as batch:
        assert batch[0] is mine
        assert batch.get_attr("name") == ("a", "b", "c", "d", "one")
        batch.reset()
        observ = batch.step([0, CommandedEnv.END, 0, CommandedEnv.END, 0])[0]
        assert observ[:, 1].tolist() == [1, 0, 1, 0, 1]


def test_environments_that_do_not_fit_are_refused_by_index_and_stay_open():
    autoreset = gymnasium.wrappers.TimeLimit(wrappers.AutoReset(CountingEnv()), 5)
    for odd, message in (
        (CountingEnv([], BOX), "observation_space of environment 1 is Box"),
        (CountingEnv(action_space=THREE_CHOICES), "action_space of environment 1 is Discrete"),
        (autoreset, "Environment 1 has Autoreset"),
    ):
        envs = [CountingEnv(), odd]
        with pytest.raises(ValueError, match=message):
            BatchEnv(envs, blocking=True)
        gc.collect()
        assert not any(env.unwrapped.closed for env in envs)


def test_is_a_sequence_of_environments_with_calls_and_attributes(playground):
    assert isinstance(playground, VectorEnv)
    assert len(playground) == playground.num_envs == len(list(playground)) == 3
    names = [
        env.get_wrapper_attr("name") if isinstance(env, gymnasium.Env) else env.name
        for env in (playground[index] for index in (0, 1, 2, -1))
    ]
    assert names == ["a", "b", "c", "c"]
    with pytest.raises(IndexError):
        _ = playground[3]
    assert playground.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert playground.call("add", 1, two=2) == (3, 3, 3)
    assert playground.call("name") == playground.get_attr("name") == ("a", "b", "c")
    assert playground.render() == ("picture of a", "picture of b", "picture of c")
    playground.set_attr("size", 5)
    assert playground.get_attr("size") == (5, 5, 5)
    playground.set_attr("size", [1, 2, 3])
    assert playground.get_attr("size") == (1, 2, 3)
    with pytest.raises(ValueError, match="needs 3 values for 'size', got 2"):
        playground.set_attr("size", [1, 2])
    with pytest.raises(EnvironmentRaisedError, match="AttributeError"):
        playground.get_attr("nothing")


def test_as_many_processes_as_cores_and_no_more_than_environments(monkeypatch):
    monkeypatch.setattr("agents.vector.process_batch.available_cores", lambda: 3)
    for num_envs, expected in ((2, [1, 1]), (7, [2, 2, 3])):
        with contextlib.closing(make_batch_env([CommandedEnv] * num_envs)) as batch:
            pids = [env._host.pid for env in batch]
        assert sorted(map(pids.count, set(pids))) == expected
