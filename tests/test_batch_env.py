import contextlib
import gc
import os
import signal
import sys
import time

import cloudpickle
import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from hypothesis import strategies

from agents.tools import BatchEnv, ExternalProcess, MockEnvironment, make_batch_env, wrappers
from agents.tools import spaces as space_tools
from agents.tools.errors import (
    EnvironmentFailure,
    EnvironmentRaisedError,
    InvalidActionError,
    WorkerDiedError,
    WorkerTimeoutError,
)

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Sampler(gymnasium.Env):
    """Random observations, rewards that depend on the action, random durations, infos at both ends of an episode."""

    def __init__(self, observation_space, action_space, ending="terminated"):
        self.observation_space, self.action_space, self.ending = observation_space, action_space, ending

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(1 << 30)))
        self.left = int(self.np_random.integers(1, 4))
        self.kept = getattr(self, "kept", [])
        info = {"left": self.left, "begun": True, "options": str(options)}
        return self.observation_space.sample(), info

    def step(self, action):
        self.kept.append(action)
        self.left -= 1
        reward = sum(float(np.sum(leaf)) for leaf in space_tools.flatten(self.action_space, action)) + self.left
        info = {"left": self.left, "nested": {"array": np.full(2, self.left)}}
        ended = self.left == 0
        flags = ended and self.ending != "truncated", ended and self.ending != "terminated"
        return self.observation_space.sample(), reward, *flags, info


class Playground(gymnasium.Env):
    """Observes how often it was stepped in its life and in its episode; the action says what happens."""

    observation_space = spaces.Box(-1, 1e6, (2,), np.float64)
    action_space = spaces.Discrete(10, start=-2)
    END, RAISE, HANG, NAP, DIE = range(1, 6)

    def __init__(self, name="one"):
        self.name, self.life, self.seeds, self.actions = name, 0, [], []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.count = 0
        if options and options.get("raise") == self.name:
            raise KeyError(self.name)
        return np.array([self.life, 0.0]), {"options": str(options)}

    def step(self, action):
        self.actions.append(action)
        if action == self.RAISE:
            raise ValueError(f"{self.name} failed")
        if action == self.HANG:
            time.sleep(60)
        if action == self.NAP:
            time.sleep(0.6)
        if action == self.DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        self.life, self.count = self.life + 1, self.count + 1
        return np.array([self.life, float(self.count)]), 1.0, bool(action == self.END), False, {}

    def add(self, one, two=0):
        return one + two

    def render(self):
        return f"picture of {self.name}"


BOXES = strategies.builds(
    lambda shape, dtype: spaces.Box(0, 9, shape, dtype),
    strategies.sampled_from([(), (1,), (2, 3)]),
    strategies.sampled_from([np.uint8, np.float32, np.float64]),
)
LEAVES = strategies.one_of(
    BOXES,
    strategies.just(spaces.Discrete(4, start=-1)),
    strategies.just(spaces.MultiDiscrete([3, 2])),
    strategies.just(spaces.MultiBinary(3)),
)
STRUCTURES = strategies.recursive(
    LEAVES,
    lambda children: strategies.one_of(
        strategies.dictionaries(strategies.sampled_from("zya"), children, min_size=1).map(spaces.Dict),
        strategies.lists(children, min_size=1, max_size=3).map(spaces.Tuple),
    ),
    max_leaves=4,
)


@contextlib.contextmanager
def batch_of(constructors, backend, **kwargs):
    """Environments in this process ("inline"), all in one worker ("one"), or each in one of its own ("each")."""
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
    constructors = [lambda name=name: gymnasium.wrappers.TimeLimit(Playground(name), 500) for name in "abc"]
    with batch_of(constructors, request.param, timeout=20) as batch:
        yield batch


def check_alike(batch, oracle, seed, steps=12):
    """Steps both with the same seeds and actions."""
    np.testing.assert_equal(*(env.reset(seed=seed) for env in (batch, oracle)))
    batch.action_space.seed(seed)
    for _ in range(steps):
        action = batch.action_space.sample()
        mine, theirs = batch.step(action), oracle.step(action)
        np.testing.assert_equal(mine[:4], theirs[:4])
        for leaf, space in zip(
            space_tools.flatten(batch.single_observation_space, mine[0]), leaves(batch), strict=True
        ):
            assert (leaf.dtype, leaf.shape) == (space.dtype, (batch.num_envs, *space.shape))
        assert [array.dtype for array in mine[1:4]] == [np.float64, bool, bool]
        ended = mine[2] | mine[3]
        check_infos(batch, mine[4], theirs[4], ended)


def leaves(batch):
    return space_tools.leaf_spaces(batch.single_observation_space)


def check_infos(batch, mine, theirs, ended):
    if not ended.any():
        assert mine == {}
        return
    np.testing.assert_array_equal(mine["_final_obs"], ended)
    np.testing.assert_equal(mine["final_info"], theirs["final_info"])
    np.testing.assert_array_equal(mine["_final_info"], ended)
    for row in np.flatnonzero(ended):
        space = batch.single_observation_space
        mine_leaves = [leaf[row] for leaf in space_tools.flatten(space, mine["final_obs"])]
        np.testing.assert_equal(mine_leaves, space_tools.flatten(space, theirs["final_obs"][row]))
        for key in ("left", "begun", "options"):  # Of the reset that followed.
            assert mine[key][row] == theirs[key][row]
            assert mine[f"_{key}"][row]


@hypothesis.given(
    STRUCTURES, STRUCTURES, strategies.sampled_from(["terminated", "truncated", "both"]), strategies.integers(0, 99)
)
@hypothesis.settings(deadline=None, max_examples=40)
@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
def test_steps_as_gymnasiums_own_batch_does(observation_space, action_space, ending, seed):
    constructors = [lambda: Sampler(space_copy(observation_space), space_copy(action_space), ending)] * 3
    oracle = SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)
    with batch_of(constructors, "inline") as batch:
        assert batch.observation_space == oracle.observation_space
        assert batch.action_space == oracle.action_space
        check_alike(batch, oracle, seed)
    oracle.close()


def space_copy(space):
    return cloudpickle.loads(cloudpickle.dumps(space))


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_steps_in_processes_as_gymnasiums_own_batch_does(processes):
    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (4, 4, 3), np.uint8),
        two=spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (), np.float64)]),
    )
    action_space = spaces.Dict(a=spaces.Box(-1, 1, (2,), np.float32), b=spaces.MultiDiscrete([3, 4]))
    constructors = [lambda: Sampler(space_copy(observation_space), space_copy(action_space))] * 5
    oracle = SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)
    with contextlib.closing(make_batch_env(constructors, processes)) as batch:
        assert len(batch._hosts) == processes
        check_alike(batch, oracle, seed=3, steps=30)
    oracle.close()


@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1"])
def test_steps_gymnasiums_environments_as_gymnasium_does(name, backend):
    constructors = [lambda: gymnasium.make(name, max_episode_steps=7)] * 3
    oracle = SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)
    with batch_of(constructors, backend) as batch:
        np.testing.assert_equal(batch.reset(seed=5), oracle.reset(seed=5))
        batch.action_space.seed(5)
        for _ in range(20):
            action = batch.action_space.sample()
            mine, theirs = batch.step(action), oracle.step(action)
            np.testing.assert_equal(mine[:4], theirs[:4])
            for row in np.flatnonzero(mine[4].get("_final_obs", [])):
                np.testing.assert_array_equal(mine[4]["final_obs"][row], theirs[4]["final_obs"][row])
    oracle.close()


def test_what_was_returned_stays_as_it_is(playground):
    given = [playground.reset()]
    given += [playground.step(np.array([0, 0, Playground.END if number == 2 else 0])) for number in range(5)]
    copies = cloudpickle.loads(cloudpickle.dumps(given))
    for _ in range(3):
        playground.step(np.array([Playground.END, 0, 0]))
    np.testing.assert_equal(given, copies)
    assert [result[0][0, 1] for result in given] == [0, 1, 2, 3, 4, 5]
    assert given[3][4]["final_obs"][2, 1] == 3


def test_an_environment_may_keep_its_actions(backend):
    with batch_of([Playground] * 2, backend) as batch:
        batch.reset()
        for action in (6, 7, np.int64(0)):
            batch.step([action, action])
        assert batch.get_attr("actions") == ([6, 7, 0], [6, 7, 0])
        assert all(isinstance(action, np.int64) for action in batch.get_attr("actions")[0])


# Resets.


def test_must_be_reset_before_it_is_stepped(backend):
    with batch_of([Playground] * 3, backend) as batch:
        with pytest.raises(ResetNeeded, match="Environment 0"):
            batch.step([0, 0, 0])
        batch.reset(indices=[0, 2])
        with pytest.raises(ResetNeeded, match="Environment 1"):
            batch.step([0, 0, 0])
        batch.reset(indices=[1])
        batch.step([0, 0, 0])


MASKS = strategies.lists(strategies.booleans(), min_size=3, max_size=3)
RUNS = strategies.lists(strategies.tuples(strategies.integers(0, 3), MASKS, strategies.booleans()), max_size=5)


@hypothesis.given(RUNS)
@hypothesis.settings(
    deadline=None, max_examples=25, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
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
            np.testing.assert_array_equal(playground.reset(indices=indices)[0][:, 1], count[indices])
        else:
            np.testing.assert_array_equal(playground.reset(options={"reset_mask": mask})[0][:, 1], count)


def test_seeds_and_options_reach_the_environments_that_are_reset(playground):
    playground.set_attr("seeds", [[], [], []])
    playground.reset(seed=5)
    playground.reset(seed=[7, None, 9])
    options = {"size": 2, "reset_mask": np.array([False, True, True])}
    _, infos = playground.reset(seed=1, options=options)
    assert options.keys() == {"size", "reset_mask"}  # They are the caller's.
    _, plain = playground.reset()
    assert playground.get_attr("seeds") == ([5, 7, None], [6, None, 2, None], [7, 9, 3, None])
    assert infos["options"].tolist() == [None, "{'size': 2}", "{'size': 2}"]
    assert infos["_options"].tolist() == [False, True, True]
    assert plain["options"].tolist() == ["None"] * 3


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"seed": [1, 2]}, "batch of 3 environments needs as many seeds, got 2"),
        ({"seed": -1}, "negative"),
        ({"seed": [1, -4, None]}, "negative"),
        ({"indices": [3]}, r"\[3\] are not all among the batch's 3"),
        ({"indices": [-4]}, "not all among"),
        ({"indices": [0], "options": {"reset_mask": np.ones(3, bool)}}, "not by both"),
        ({"options": {"reset_mask": np.ones(2, bool)}}, r"bool \[3\], got bool \[2\]"),
        ({"options": {"reset_mask": np.ones(3)}}, r"bool \[3\], got float64 \[3\]"),
    ],
)
def test_wrong_resets_are_refused_and_reset_nothing(playground, kwargs, message):
    playground.reset()
    playground.step([0, 0, 0])
    with pytest.raises(ValueError, match=message):
        playground.reset(**kwargs)
    assert playground.step([0, 0, 0])[0][:, 1].tolist() == [2, 2, 2]


# Actions.


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 0, 8], "action 8 of environment 2 is not in Discrete"),
        ([0, -3, 9], "action -3 of environment 1"),
        ([0, 0], "3 environments needs as many actions, got 2"),
        (0, "needs as many actions"),
        ([0, [1, 2], 0], r"action of environment 1 has shape \(2,\), it needs \(\)"),
        ([[0], [0], [0]], r"action of environment 0 has shape \(1,\), it needs \(\)"),
        ([0.5, 0, 0], "float64"),
        (["a", "b", "c"], "Actions of type"),
    ],
)
def test_invalid_actions_step_nothing(playground, actions, message):
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
    batch = BatchEnv([Sampler(spaces.Discrete(2), action_space)] * 2, blocking=True)
    batch.reset()
    actions = np.zeros((2, 2))
    actions[1, 0] = odd
    with pytest.raises(InvalidActionError, match=message):
        batch.step(actions)
    batch.step(np.full((2, 2), 0.7))  # Slightly more than the bound, which is a float32.
    batch.step([[0, 0], [0, 0]])


def test_one_invalid_leaf_changes_none():
    space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Discrete(3))
    batch = BatchEnv([Sampler(spaces.Discrete(2), space)] * 2, blocking=True)
    batch.reset()
    before = [array.copy() for array in batch._arrays.action]
    with pytest.raises(InvalidActionError, match="environment 1"):
        batch.step({"a": [1, 1], "b": [2, 3]})
    np.testing.assert_equal(batch._arrays.action, before)


# What a batch is made of.


def test_no_environments():
    for make in (lambda: BatchEnv([]), lambda: make_batch_env([])):
        with pytest.raises(ValueError, match="at least one environment"):
            make()


def test_environments_of_this_process_need_blocking():
    with pytest.raises(ValueError, match="blocking=True"):
        BatchEnv([Playground()])


def test_a_refused_batch_leaves_its_environments_open():
    closed = []
    envs = [Sampler(spaces.Discrete(2), spaces.Discrete(size)) for size in (2, 3)]
    for env in envs:
        env.close = lambda: closed.append(True)
    with pytest.raises(ValueError, match="environment 1"):
        BatchEnv(envs, blocking=True)
    gc.collect()
    assert not closed


def test_differing_spaces_are_refused_by_index(backend):
    constructors = [lambda: MockEnvironment((2,), (1,), 3, 3)] * 2
    for other, name in (((3,), (1,)), "observation_space"), (((2,), (2,)), "action_space"):
        odd = lambda other=other: MockEnvironment(*other, 3, 3)  # noqa: E731
        with pytest.raises(ValueError, match=f"the {name} of environment 2 is Box"):
            with batch_of([*constructors, odd], backend):
                pass


def test_an_environment_that_resets_itself_is_refused_by_index(backend):
    constructors = [Playground, lambda: gymnasium.wrappers.TimeLimit(wrappers.AutoReset(Playground()), 5)]
    with pytest.raises(ValueError, match="Environment 1 has Autoreset"):
        with batch_of(constructors, backend):
            pass


def test_a_failing_constructor_is_named_by_its_index_in_the_batch_and_all_workers_end():
    before = children()
    with pytest.raises(EnvironmentRaisedError, match="constructor raised ZeroDivisionError") as caught:
        make_batch_env([Playground, Playground, Playground, lambda: 1 / 0], processes=2)
    assert caught.value.env_index == 3
    assert children() <= before


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        mine = set(file.read().split())
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/task/{task}/children") as file:
            mine |= set(file.read().split())
    return mine


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


def test_the_own_environments_are_those_of_the_batch():
    envs = [Playground(), Playground()]
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


def test_processes_and_blocking_go_together():
    processes = [ExternalProcess(lambda: Playground("a")), ExternalProcess([Playground, lambda: Playground("c")])]
    with contextlib.closing(BatchEnv([*processes, Playground("d")], blocking=True)) as batch:
        assert batch.get_attr("name") == ("a", "one", "c", "d")
        batch.reset()
        assert batch.step([0, Playground.END, 0, 0])[0][:, 1].tolist() == [1, 0, 1, 1]


def test_as_many_processes_as_cores_and_no_more_than_environments(monkeypatch):
    monkeypatch.setattr("agents.tools.batch_env.available_cores", lambda: 3)
    with contextlib.closing(make_batch_env([Playground] * 2)) as batch:
        assert len(batch._hosts) == 2
    with contextlib.closing(make_batch_env([Playground] * 7)) as batch:
        assert sorted(host.num_envs for host in batch._hosts) == [2, 2, 3]


def test_eight_workers_are_ready_soon():
    start = time.monotonic()
    batch = make_batch_env([lambda: gymnasium.make("Pendulum-v1")] * 8, processes=8)
    batch.reset()
    seconds = time.monotonic() - start
    batch.close()
    assert seconds < 20  # Idle it takes less than one; other work on the machine must not fail this.


def test_gymnasiums_vector_wrappers_work(backend):
    def constructor():
        return Sampler(spaces.Box(0, 1, (2,), np.float32), spaces.Box(-1, 1, (1,), np.float32))

    record = gymnasium.wrappers.vector.RecordEpisodeStatistics
    oracle = record(SyncVectorEnv([constructor] * 3, autoreset_mode=AutoresetMode.SAME_STEP))
    with batch_of([constructor] * 3, backend) as batch:
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


# Failures.


def test_an_environments_failure_leaves_no_answer_of_another_behind(playground):
    playground.reset()
    with pytest.raises(EnvironmentRaisedError, match="b failed") as caught:
        playground.step([0, Playground.RAISE, 0])
    assert caught.value.env_index == 1
    with pytest.raises(ResetNeeded):
        playground.step([0, 0, 0])
    with pytest.raises(EnvironmentRaisedError, match="c"):
        playground.reset(options={"raise": "c"})
    with pytest.raises(ResetNeeded):
        playground.step([0, 0, 0])
    assert playground.reset()[0][:, 1].tolist() == [0, 0, 0]
    for count in range(1, 4):
        assert playground.step([0, 0, 0])[0][:, 1].tolist() == [count] * 3


def test_several_failures_at_once():
    with batch_of([lambda name=name: Playground(name) for name in "abc"], "each") as batch:
        batch.reset()
        with pytest.raises(EnvironmentRaisedError, match="a failed|c failed"):
            batch.step([Playground.RAISE, 0, Playground.RAISE])
        batch.reset()
        assert batch.step([0, 0, 0])[0][:, 1].tolist() == [1, 1, 1]


def test_a_killed_worker_is_named_and_the_others_close():
    batch = make_batch_env([Playground] * 4, processes=2)
    batch.reset()
    start = time.monotonic()
    with pytest.raises(WorkerDiedError, match="SIGKILL") as caught:
        batch.step([0, 0, 0, Playground.DIE])
    assert caught.value.env_index == 3
    with pytest.raises(WorkerDiedError):
        batch.reset()
    batch.close()
    assert time.monotonic() - start < 5


def test_a_slow_worker_times_out_and_its_late_answer_is_not_mixed_up():
    with batch_of([Playground] * 3, "each", timeout=0.3) as batch:
        batch.reset()
        with pytest.raises(WorkerTimeoutError) as caught:
            batch.step([0, Playground.NAP, 0])
        assert caught.value.env_index == 1
        with pytest.raises(ResetNeeded):
            batch.step([0, 0, 0])
        deadline = time.monotonic() + 20
        while True:
            try:
                observ, _ = batch.reset()
                break
            except EnvironmentFailure:
                assert time.monotonic() < deadline
        assert observ.tolist() == [[1, 0], [1, 0], [1, 0]]
        assert batch.step([0, 0, 0])[0].tolist() == [[2, 1], [2, 1], [2, 1]]


@pytest.mark.parametrize("place", ["inline", "each"])
def test_an_interrupt_leaves_a_batch_that_must_be_reset(place):
    def interrupt(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        with batch_of([Playground] * 2, place, timeout=20) as batch:
            batch.reset()
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                batch.step([Playground.NAP, 0])
            with pytest.raises(ResetNeeded):
                batch.step([0, 0])
            batch.reset()
            assert batch.step([0, 0])[0][:, 1].tolist() == [1, 1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_closing_twice_is_fine_and_ends_the_processes():
    batch = make_batch_env([Playground] * 2, processes=2)
    pids = {str(host.pid) for host in batch._hosts}
    assert pids <= children()
    batch.close()
    batch.close()
    assert not pids & children()
    with pytest.raises(RuntimeError, match="closed"):
        batch.reset()
