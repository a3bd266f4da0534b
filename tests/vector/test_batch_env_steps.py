import contextlib
import functools
import sys

import cloudpickle
import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import strategies

from agents import spaces as space_tools
from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env
from tests.toys import RandomEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def info_of(steps):
    """Infos in every step, those of a reset differ from the others."""
    if steps == 0:
        return {"steps": 0, "is_first": True, "name": "first"}
    return {"steps": steps, "nested": {"array": np.full(2, steps)}}


sampler = functools.partial(RandomEnv, durations=(1, 3), info=info_of)
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
        strategies.dictionaries(strategies.sampled_from("zya"), children, min_size=1).map(
            spaces.Dict
        ),
        strategies.lists(children, min_size=1, max_size=3).map(spaces.Tuple),
    ),
    max_leaves=4,
)


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


def assert_equal_steps(batch, oracle, seed, steps=12):
    """Compares both with the same seeds and actions."""
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
        done = mine[2] | mine[3]
        assert_equal_infos(batch, mine[4], theirs[4], done)


def leaves(batch):
    return space_tools.leaf_spaces(batch.single_observation_space)


def assert_equal_infos(batch, mine, theirs, done):
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
    constructor = functools.partial(sampler, observation_space, action_space, ending=ending)
    constructors = [constructor] * 3
    oracle = SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)
    with batch_of(constructors, "inline") as batch:
        assert batch.observation_space == oracle.observation_space
        assert batch.action_space == oracle.action_space
        assert_equal_steps(batch, oracle, seed)
    oracle.close()


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_steps_in_processes_equal_those_of_gymnasium(processes):
    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (4, 4, 3), np.uint8),
        two=spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (), np.float64)]),
    )
    action_space = spaces.Dict(
        a=spaces.Box(-1, 1, (2,), np.float32), b=spaces.MultiDiscrete([3, 4])
    )
    constructors = [functools.partial(sampler, observation_space, action_space)] * 5
    oracle = SyncVectorEnv(constructors, autoreset_mode=AutoresetMode.SAME_STEP)
    with contextlib.closing(make_batch_env(constructors, processes)) as batch:
        assert len(batch._hosts) == processes
        assert_equal_steps(batch, oracle, seed=3, steps=30)
    oracle.close()


@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1"])
def test_steps_of_gymnasiums_environments_equal_those_of_gymnasium(name, backend):
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
                np.testing.assert_array_equal(
                    mine[4]["final_obs"][row], theirs[4]["final_obs"][row]
                )
    oracle.close()


def test_gymnasiums_vector_wrappers_apply(backend):
    record = gymnasium.wrappers.vector.RecordEpisodeStatistics
    oracle = record(SyncVectorEnv([sampler] * 3, autoreset_mode=AutoresetMode.SAME_STEP))
    with batch_of([sampler] * 3, backend) as batch:
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
