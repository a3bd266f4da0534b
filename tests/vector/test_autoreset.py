import contextlib
import copy
import functools
import sys

import cloudpickle
import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import strategies

from agents.vector.autoreset import SameStepAutoreset, to_same_step
from tests.faulty_toys import CountingVectorEnv
from tests.toys import CountingEnv

# Workers need not be able to import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

OBSERVATIONS = spaces.Dict(
    page=spaces.Box(-1, 1e6, (2,), np.float64),
    mark=spaces.Tuple([spaces.Box(-1, 1e6, (), np.float32)]),
)
ACTIONS = spaces.Box(-9, 9, (1,), np.float32)
PLANS = [
    [(1, "terminated"), (3, "both"), (2, "truncated")],
    [(4, "truncated"), (1, "both"), (1, "terminated")],  # Ends with the first one at step 4.
    [(1000, "terminated")],
]


def reward_of(steps, action):
    """A reward that differs between steps and actions."""
    return steps + float(action[0])


def info_of(steps):
    """Infos that share one name between resets and steps."""
    if steps == 0:
        return {"steps": 0, "is_first": True}
    return {"steps": steps, "part": {"double": 2 * steps}}


@contextlib.contextmanager
def made(kind, mode, plans=PLANS):
    """Environments with planned episodes, whose observations tell seed, episode and step."""
    make = functools.partial(CountingEnv, stride=100, start_at_seed=True)
    arguments = OBSERVATIONS, ACTIONS, reward_of, info_of
    constructors = [functools.partial(make, plan, *arguments) for plan in plans]
    if kind.startswith("sync"):
        batch = SyncVectorEnv(constructors, autoreset_mode=mode, copy=kind == "sync")
    else:
        # Not forked, because TensorFlow's threads may be running.
        shared = kind != "async, no shared memory"
        batch = AsyncVectorEnv(
            constructors, autoreset_mode=mode, context="forkserver", shared_memory=shared
        )
    try:
        yield batch
    finally:
        batch.close()


def infos_of(infos, row):
    """Returns the infos of one environment by the masks, without `final_obs`."""
    names = [
        name
        for name in infos
        if f"_{name}" in infos and name != "final_obs" and infos[f"_{name}"][row]
    ]
    return {
        name: infos_of(infos[name], row) if isinstance(infos[name], dict) else infos[name][row]
        for name in names
    }


def element_of(observ, row):
    return {"page": observ["page"][row], "mark": (observ["mark"][0][row],)}


def check_against_gymnasiums_same_step_mode(batch, plans, steps):
    """Compares with the same environments and actions; returns the number of episodes that ended."""
    num_envs, kept = len(plans), []
    with made("sync", AutoresetMode.SAME_STEP, plans) as oracle:
        for envs in (batch, oracle):
            envs.reset(seed=list(range(num_envs)))
        for step in range(steps):
            actions = (np.arange(num_envs) / 8 + step / 100).astype(np.float32)[:, None]
            *mine, infos = batch.step(actions)
            *theirs, expected = oracle.step(actions)
            np.testing.assert_equal(mine, theirs)
            done = mine[2] | mine[3]
            np.testing.assert_array_equal(infos.get("_final_obs", done), done)
            for row in range(num_envs):
                assert infos_of(infos, row) == infos_of(expected, row)
                if done[row]:
                    final = element_of(infos["final_obs"], row)
                    np.testing.assert_equal(final, expected["final_obs"][row])
                elif "final_info" in infos:
                    assert infos_of(infos["final_info"], row) == {}
            if done.any():
                kept.append((infos, copy.deepcopy(infos)))
    # A later step or reset changes nothing that was returned at the end of an episode.
    assert all(data_equivalence(infos["final_obs"], copied["final_obs"]) for infos, copied in kept)
    assert all(
        data_equivalence(infos["final_info"], copied["final_info"]) for infos, copied in kept
    )
    return sum(infos["_final_obs"].sum() for infos, _ in kept)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("sync", AutoresetMode.NEXT_STEP),
        ("sync, reused arrays", AutoresetMode.NEXT_STEP),
        ("sync, reused arrays", AutoresetMode.DISABLED),
        ("async", AutoresetMode.NEXT_STEP),
        ("async, no shared memory", AutoresetMode.DISABLED),
    ],
)
def test_steps_equal_those_of_gymnasiums_same_step_mode(kind, mode):
    with made(kind, mode) as batch:
        wrapped = gymnasium.wrappers.vector.TransformReward(batch, lambda reward: reward)
        assert check_against_gymnasiums_same_step_mode(to_same_step(wrapped), PLANS, 30) > 20


episodes = strategies.tuples(
    strategies.integers(1, 4), strategies.sampled_from(["terminated", "truncated", "both"])
)


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(
    plans=strategies.lists(
        strategies.lists(episodes, min_size=1, max_size=3), min_size=1, max_size=4
    ),
    mode=strategies.sampled_from([AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED]),
)
def test_any_lengths_and_ends_of_episodes(plans, mode):
    with made("sync", mode, plans) as batch:
        check_against_gymnasiums_same_step_mode(to_same_step(batch), plans, steps=15)


def test_infos_that_a_reset_overwrites():
    class Reusing(CountingVectorEnv):
        infos = {"steps": np.zeros(2), "nested": {"steps": [0]}, "_steps": np.ones(2, bool)}

        def reset(self, *, seed=None, options=None):
            observ, _ = super().reset(seed=seed, options=options)
            self._note()
            return observ, self.infos

        def step(self, actions):
            results = super().step(actions)
            self._note()
            return *results[:-1], self.infos

        def _note(self):
            self.infos["steps"][:] = self._observ[:, 0]
            self.infos["nested"]["steps"][0] = self._observ[0, 0]

    batch = to_same_step(Reusing((2, 3), AutoresetMode.DISABLED))
    batch.reset()
    batch.step(np.zeros(2, int))
    *_, infos = batch.step(np.zeros(2, int))
    assert infos["steps"].tolist() == [0, 2]
    assert infos["final_info"]["steps"][0] == 2
    assert infos["final_info"]["nested"]["steps"] == [2]


def test_same_step_environments_are_returned_unchanged():
    with made("sync", AutoresetMode.SAME_STEP) as batch:
        assert to_same_step(batch) is batch
    with made("sync", AutoresetMode.NEXT_STEP) as batch:
        wrapped = to_same_step(batch)
        assert isinstance(wrapped, SameStepAutoreset) and to_same_step(wrapped) is wrapped
        assert wrapped.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
        assert batch.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP


def test_environments_that_cannot_be_reset_in_the_same_step_are_refused():
    batch = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    with pytest.raises(ValueError, match="CartPoleVectorEnv.*can't reset a part.*SyncVectorEnv"):
        to_same_step(batch)
    batch.close()
    with made("async, no shared memory", AutoresetMode.NEXT_STEP) as batch:
        with pytest.raises(ValueError, match="shared_memory=False.*SAME_STEP"):
            to_same_step(batch)
    batch = CountingVectorEnv()
    for batch.metadata in ({}, {"autoreset_mode": "same-step"}):
        with pytest.raises(ValueError, match="does not say when it resets.*autoreset_mode"):
            to_same_step(batch)
    with pytest.raises(ValueError, match="is one environment; expected a vector"):
        to_same_step(gymnasium.make("CartPole-v1"))


@pytest.mark.parametrize("masked_reset", ["all", "part"])
def test_ignored_masks_are_noticed(masked_reset):
    batch = CountingVectorEnv((5, 3), AutoresetMode.NEXT_STEP, masked_reset=masked_reset)
    envs = to_same_step(batch)
    envs.reset()
    for _ in range(2):
        envs.step(np.zeros(2, int))
    with pytest.raises(ValueError, match="CountingVectorEnv.*can't reset a part"):
        envs.step(np.zeros(2, int))
