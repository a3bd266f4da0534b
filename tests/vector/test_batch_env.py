import contextlib
import copy
import functools
import gc
import sys
import time

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
from agents.environments.mock_environment import MockEnvironment
from agents.errors import EnvironmentRaisedError, InvalidActionError
from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env
from agents.workers.external_process import ExternalProcess
from agents.workers.host import LocalHost
from tests.faulty_toys import CommandedEnv
from tests.toys import COUNTS, THREE_CHOICES, TWO_CHOICES, CountingEnv, RandomEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@contextlib.contextmanager
def batch_of(constructors, backend, **kwargs):
    """Yields environments in this process ("inline"), in one worker ("one"), or in one worker each."""
    if backend == "inline":
        batch = BatchEnv([constructor() for constructor in constructors], blocking=True)
    else:
        batch = make_batch_env(constructors, 1 if backend == "one" else len(constructors), **kwargs)
    with contextlib.closing(batch):
        yield batch


@pytest.fixture(params=["inline", "one", "each"])
def backend(request):
    return request.param


@pytest.fixture(scope="module", params=["inline", "one", "each"])
def playground(request):
    """Three environments that stay usable."""
    constructors = [
        lambda name=name: gymnasium.wrappers.TimeLimit(CommandedEnv(name), 500) for name in "abc"
    ]
    with batch_of(constructors, request.param, timeout=20) as batch:
        yield batch


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


def test_an_environment_may_keep_its_actions(backend):
    with batch_of([CommandedEnv] * 2, backend) as batch:
        batch.reset()
        for action in (8, 9, np.int64(0)):
            batch.step([action, action])
        assert batch.get_attr("actions") == ([8, 9, 0], [8, 9, 0])
        assert all(isinstance(action, np.int64) for action in batch.get_attr("actions")[0])


# Resets.


def test_must_be_reset_before_it_is_stepped(backend):
    with batch_of([CommandedEnv] * 3, backend) as batch:
        with pytest.raises(ResetNeeded, match="Environment 0"):
            batch.step([0, 0, 0])
        batch.reset(indices=[0, 2])
        with pytest.raises(ResetNeeded, match="Environment 1"):
            batch.step([0, 0, 0])
        batch.reset(indices=[1])
        batch.step([0, 0, 0])


MASKS = strategies.lists(strategies.booleans(), min_size=3, max_size=3)
RUNS = strategies.lists(
    strategies.tuples(strategies.integers(0, 3), MASKS, strategies.booleans()), max_size=5
)


@hypothesis.given(RUNS)
@hypothesis.settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
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
            indices = np.flatnonzero(mask)[::-1]
            np.testing.assert_array_equal(
                playground.reset(indices=indices)[0][:, 1], count[indices]
            )
        else:
            np.testing.assert_array_equal(
                playground.reset(options={"reset_mask": mask})[0][:, 1], count
            )


def test_seeds_and_options_reach_the_environments_that_are_reset(playground):
    playground.set_attr("seeds", [[], [], []])
    playground.reset(seed=5)
    playground.reset(seed=[7, None, 9])
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


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"seed": [1, 2]}, "batch of 3 environments needs 3 seeds, got 2"),
        ({"seed": -1}, "negative"),
        ({"seed": [1, -4, None]}, "negative"),
        ({"indices": [3]}, r"\[3\] must be in \[-3, 3\)"),
        ({"indices": [-4]}, r"\[-4\] must be in \[-3, 3\)"),
        ({"indices": [0], "options": {"reset_mask": np.ones(3, bool)}}, "not by both"),
        ({"options": {"reset_mask": np.ones(2, bool)}}, r"bool \[3\], got bool \[2\]"),
        ({"options": {"reset_mask": np.ones(3)}}, r"bool \[3\], got float64 \[3\]"),
    ],
)
def test_invalid_resets_raise_and_reset_nothing(playground, kwargs, message):
    playground.reset()
    playground.step([0, 0, 0])
    with pytest.raises(ValueError, match=message):
        playground.reset(**kwargs)
    assert playground.step([0, 0, 0])[0][:, 1].tolist() == [2, 2, 2]


# Actions.


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 0, 100], "action 100 of environment 2 is not in Discrete"),
        ([0, -3, 101], "action -3 of environment 1"),
        ([0, 0], "3 environments needs as many actions, got 2"),
        (0, "expected an array"),
        ([0, [1, 2], 0], r"action of environment 1 has shape \(2,\), expected \(\)"),
        ([[0], [0], [0]], r"action of environment 0 has shape \(1,\), expected \(\)"),
        ([0.5, 0, 0], "float64"),
        (["a", "b", "c"], "Actions of type"),
    ],
)
def test_invalid_actions_raise_and_step_nothing(playground, actions, message):
    playground.reset()
    with pytest.raises(InvalidActionError, match=message):
        playground.step(actions)
    assert playground.step([0, 0, 0])[0][:, 1].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (np.nan, r"\[nan  *0\. *\] of environment 1"),
        (np.inf, "environment 1"),
        (1e300, "environment 1"),
        (0.71, "environment 1"),
    ],
)
def test_invalid_numbers_name_the_environment(odd, message):
    action_space = spaces.Box(-0.7, 0.7, (2,), np.float32)
    envs = [CountingEnv(action_space=action_space) for _ in range(2)]
    batch = BatchEnv(envs, blocking=True)
    batch.reset()
    actions = np.zeros((2, 2))
    actions[1, 0] = odd
    with pytest.raises(InvalidActionError, match=message):
        batch.step(actions)
    batch.step(np.full((2, 2), 0.7))  # Slightly more than the float32 bound.
    batch.step([[0, 0], [0, 0]])


def test_an_invalid_leaf_changes_no_other():
    space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Discrete(3))
    batch = BatchEnv([CountingEnv(action_space=space) for _ in range(2)], blocking=True)
    batch.reset()
    before = [array.copy() for array in batch._arrays.action]
    with pytest.raises(InvalidActionError, match="environment 1"):
        batch.step({"a": [1, 1], "b": [2, 3]})
    np.testing.assert_equal(batch._arrays.action, before)


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
    envs = [CommandedEnv("mine"), LocalHost(CommandedEnv), ExternalProcess(CommandedEnv)]
    with contextlib.closing(BatchEnv(envs, blocking=True)) as batch:
        batch.reset()
        np.testing.assert_array_equal(batch.step([0] * 3)[0][:, 1], [1, 1, 1])


def test_a_refused_batch_leaves_its_environments_open():
    envs = [CountingEnv(action_space=space) for space in (TWO_CHOICES, THREE_CHOICES)]
    with pytest.raises(ValueError, match="environment 1"):
        BatchEnv(envs, blocking=True)
    gc.collect()
    assert not any(env.closed for env in envs)


def test_differing_spaces_are_refused_by_index(backend):
    constructors = [lambda: MockEnvironment((2,), (1,), 3, 3)] * 2
    for other, name in (((3,), (1,)), "observation_space"), (((2,), (2,)), "action_space"):
        odd = lambda other=other: MockEnvironment(*other, 3, 3)  # noqa: E731
        with pytest.raises(ValueError, match=f"the {name} of environment 2 is Box"):
            with batch_of([*constructors, odd], backend):
                pass


def test_an_autoreset_wrapper_is_refused_by_index(backend):
    constructors = [
        CommandedEnv,
        lambda: gymnasium.wrappers.TimeLimit(wrappers.AutoReset(CommandedEnv()), 5),
    ]
    with pytest.raises(ValueError, match="Environment 1 has Autoreset"):
        with batch_of(constructors, backend):
            pass


def test_is_a_sequence_of_environments(playground):
    assert isinstance(playground, VectorEnv)
    assert len(playground) == playground.num_envs == 3
    assert [
        playground[index].get_wrapper_attr("name") if inline(playground) else playground[index].name
        for index in (0, 1, 2, -1)
    ] == ["a", "b", "c", "c"]
    assert len(list(playground)) == 3
    with pytest.raises(IndexError):
        _ = playground[3]
    assert playground.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP


def inline(batch):
    return isinstance(batch[0], gymnasium.Env)


def test_environments_in_this_process_are_items_of_the_batch():
    envs = [CommandedEnv(), CommandedEnv()]
    batch = BatchEnv(envs, blocking=True)
    assert batch[1] is envs[1]


def test_calls_and_attributes(playground):
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


def test_processes_and_environments_can_be_stepped_one_after_another():
    processes = [
        ExternalProcess(lambda: CommandedEnv("a")),
        ExternalProcess([CommandedEnv, lambda: CommandedEnv("c")]),
    ]
    with contextlib.closing(BatchEnv([*processes, CommandedEnv("d")], blocking=True)) as batch:
        assert batch.get_attr("name") == ("a", "one", "c", "d")
        batch.reset()
        assert batch.step([0, CommandedEnv.END, 0, 0])[0][:, 1].tolist() == [1, 0, 1, 1]


def test_as_many_processes_as_cores_and_no_more_than_environments(monkeypatch):
    monkeypatch.setattr("agents.vector.process_batch.available_cores", lambda: 3)
    with contextlib.closing(make_batch_env([CommandedEnv] * 2)) as batch:
        assert len(batch._hosts) == 2
    with contextlib.closing(make_batch_env([CommandedEnv] * 7)) as batch:
        assert sorted(host.num_envs for host in batch._hosts) == [2, 2, 3]


@pytest.mark.timing
def test_eight_workers_start_quickly():
    start = time.monotonic()
    batch = make_batch_env([lambda: gymnasium.make("Pendulum-v1")] * 8, processes=8)
    batch.reset()
    seconds = time.monotonic() - start
    batch.close()
    assert seconds < 60  # Less than one on an idle machine; other load must not fail this.


# Gymnasium's interface.


def test_seeds_are_those_of_the_environments(backend):
    with batch_of([CommandedEnv] * 3, backend) as batch:
        batch.reset(seed=7)
        assert batch.np_random_seed == (7, 8, 9)
        batch.reset()
        assert batch.np_random_seed == (7, 8, 9)
        batch.reset(seed=[1, None, 5])
        assert batch.np_random_seed == (1, 8, 5)


def test_steps_are_started_and_waited_for(backend):
    constructors = [CommandedEnv] * 2
    with batch_of(constructors, backend) as batch, batch_of(constructors, "inline") as other:
        batch.reset(seed=0), other.reset(seed=0)
        with pytest.raises(NoAsyncCallError, match="step_async"):
            batch.step_wait()
        for actions in ([0, 0], [0, CommandedEnv.END], [0, 0]):
            batch.step_async(actions)
            for call in (
                lambda: batch.step([0, 0]),
                lambda: batch.step_async([0, 0]),
                batch.reset,
                lambda: batch.call("reset"),
                lambda: batch.get_attr("actions"),
                lambda: batch.set_attr("actions", []),
                lambda: batch.start_rollout(2),
            ):
                with pytest.raises(AlreadyPendingCallError, match="step_wait"):
                    call()
            assert data_equivalence(batch.step_wait(), other.step(actions))
        with pytest.raises(InvalidActionError):
            batch.step_async([0])
        batch.step([0, 0])


def test_a_step_under_way_does_not_keep_a_batch_open(backend):
    with batch_of([CommandedEnv] * 2, backend) as batch:
        batch.reset()
        batch.step_async([0, 0])


def test_a_closed_batch_says_so(backend):
    with batch_of([CommandedEnv] * 2, backend) as batch:
        batch.reset()
        batch.close()
        for call in (
            lambda: batch.step([0, 0]),
            lambda: batch.step_async([0, 0]),
            batch.reset,
            lambda: batch.call("render"),
            lambda: batch.get_attr("actions"),
            lambda: batch.set_attr("actions", []),
            lambda: batch.np_random_seed,
        ):
            with pytest.raises(ClosedEnvironmentError, match="after `close`"):
                call()


@pytest.mark.parametrize(
    ("space", "backend"),
    [
        (COUNTS, "one"),
        (COUNTS, "each"),
        (spaces.Tuple([COUNTS["pair"][0], spaces.Discrete(100)]), "inline"),
        (COUNTS["pair"][1], "inline"),
    ],
    ids=str,
)
def test_final_observations_are_those_of_the_environments(space, backend):
    constructors = [
        functools.partial(CountingEnv, [(length, "terminated")], space) for length in (2, 3, 2)
    ]
    with batch_of(constructors, backend) as batch:
        batch.reset()
        batch.step(batch.action_space.sample())
        *_, infos = batch.step(batch.action_space.sample())
        np.testing.assert_array_equal(infos["_final_obs"], [True, False, True])
        assert infos["final_obs"].shape == (3,) and infos["final_obs"][1] is None
        for row in (0, 2):
            assert batch.single_observation_space.contains(infos["final_obs"][row])


@pytest.mark.parametrize(
    "actions",
    [0, None, {"a": 0, "b": 1}, [[0], [1]], [[0, 1], [2]], "ab", np.zeros((2, 2)), [None, None]],
    ids=str,
)
def test_actions_of_any_type_are_refused_by_one_message(actions):
    with batch_of([CommandedEnv] * 2, "inline") as batch:
        batch.reset()
        with pytest.raises(InvalidActionError):
            batch.step(actions)
        batch.step([0, 0])


@pytest.mark.parametrize("actions", [0, [0, 1], {"steer": [0, 1]}, ({}, {}), None], ids=str)
def test_actions_of_another_structure_are_refused_by_one_message(actions):
    space = spaces.Dict(steer=spaces.Discrete(2), gear=spaces.Discrete(3))
    envs = [RandomEnv(action_space=space) for _ in range(2)]
    batch = BatchEnv(envs, blocking=True)
    batch.reset()
    with pytest.raises(InvalidActionError, match="steer"):
        batch.step(actions)
