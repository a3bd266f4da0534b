import contextlib
import functools
import sys

import cloudpickle
import gymnasium
import hypothesis
import numpy as np
import pytest
from gymnasium import spaces
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


def reward_of(steps, action):
    """A reward that differs between steps and actions."""
    return steps + float(action[0])


def info_of(steps):
    """Infos that share one name between resets and steps."""
    if steps == 0:
        return {"steps": 0, "is_first": True}
    return {"steps": steps, "part": {"double": 2 * steps}}


def make_diary(plan):
    """An environment with planned episodes; its observations tell seed, episode and step."""
    kinds = {"stride": 100, "start_at_seed": True}
    return CountingEnv(plan, OBSERVATIONS, ACTIONS, reward_of, info_of, **kinds)


PLANS = [
    [(1, "terminated"), (3, "both"), (2, "truncated")],
    [(4, "truncated"), (1, "both"), (1, "terminated")],  # Ends with the first one at step 4.
    [(1000, "terminated")],
]


@contextlib.contextmanager
def made(kind, mode, plans=PLANS):
    constructors = [functools.partial(make_diary, plan) for plan in plans]
    if kind == "sync":
        batch = SyncVectorEnv(constructors, autoreset_mode=mode)
    elif kind == "sync, reused arrays":
        batch = SyncVectorEnv(constructors, autoreset_mode=mode, copy=False)
    else:
        # Not forked, because TensorFlow's threads may be running.
        batch = AsyncVectorEnv(
            constructors,
            autoreset_mode=mode,
            context="forkserver",
            shared_memory=kind != "async, no shared memory",
        )
    try:
        yield batch
    finally:
        batch.close()


def actions(step, num_envs):
    return (np.arange(num_envs) / 8 + step / 100).astype(np.float32)[:, None]


def alone(plan, row, num_envs, steps, seed):
    """Yields the steps of a single environment, with its final observation and infos."""
    env = make_diary(plan)
    env.reset(seed=seed)
    for step in range(steps):
        observ, reward, terminated, truncated, info = env.step(actions(step, num_envs)[row])
        final, final_info, reset_info = observ, info, None
        if terminated or truncated:
            observ, reset_info = env.reset()
        yield observ, reward, terminated, truncated, final, final_info, reset_info


def assert_row(batch, row, observ):
    np.testing.assert_array_equal(batch["page"][row], observ["page"])
    np.testing.assert_array_equal(batch["mark"][0][row], observ["mark"][0])


def check_against_single_environments(batch, plans, steps):
    num_envs = len(plans)
    batch.reset(seed=list(range(num_envs)))
    references = [alone(plan, row, num_envs, steps, row) for row, plan in enumerate(plans)]
    results = []
    for step in range(steps):
        observ, reward, terminated, truncated, infos = batch.step(actions(step, num_envs))
        # Without copies of the rest, to notice arrays that a later step changes.
        kept = (observ, np.array(reward), np.array(terminated), np.array(truncated), infos)
        results.append(kept)
        for row, reference in enumerate(references):
            expected, *outcome, final, final_info, reset_info = next(reference)
            assert_row(observ, row, expected)
            assert [kept[1][row], kept[2][row], kept[3][row]] == outcome
            if reset_info is None:
                assert "_final_obs" not in infos or not infos["_final_obs"][row]
                assert infos["steps"][row] == final_info["steps"] and infos["_steps"][row]
                assert infos["part"]["double"][row] == final_info["part"]["double"]
                assert "is_first" not in infos or not infos["_is_first"][row]
            else:
                assert infos["_final_obs"][row] and infos["_final_info"][row]
                assert_row(infos["final_obs"], row, final)
                assert infos["final_info"]["steps"][row] == final_info["steps"]
                assert (
                    infos["final_info"]["_steps"][row]
                    and infos["final_info"]["part"]["_double"][row]
                )
                assert infos["final_info"]["part"]["double"][row] == final_info["part"]["double"]
                assert (
                    infos["steps"][row] == reset_info["steps"]
                    and infos["is_first"][row]
                    and infos["_is_first"][row]
                )
                assert infos["_steps"][row]
                assert "part" not in infos or not infos["part"]["_double"][row]
    for row, plan in enumerate(plans):  # Earlier results have not changed.
        for (_, reward, _, _, infos), (_, expected, *_, final, _, reset_info) in zip(
            results, alone(plan, row, num_envs, steps, row), strict=True
        ):
            assert reward[row] == expected
            if reset_info is not None:
                assert_row(infos["final_obs"], row, final)


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
def test_every_environment_behaves_like_a_single_one(kind, mode):
    with made(kind, mode) as batch:
        wrapped = gymnasium.wrappers.vector.TransformReward(batch, lambda reward: reward)
        check_against_single_environments(to_same_step(wrapped), PLANS, steps=30)


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


def test_infos_equal_those_of_gymnasiums_same_step_mode():
    ends = 0
    with (
        made("sync", AutoresetMode.NEXT_STEP) as batch,
        made("sync", AutoresetMode.SAME_STEP) as reference,
    ):
        batch = to_same_step(batch)
        batch.reset(seed=0)
        reference.reset(seed=0)
        for step in range(20):
            *_, terminated, truncated, infos = batch.step(actions(step, 3))
            *_, theirs = reference.step(actions(step, 3))
            for row, done in enumerate(terminated | truncated):
                expected = infos_of(theirs, row)
                assert ("final_info" in expected) == done
                assert infos_of(infos, row) == expected
                if "final_info" in infos and not done:
                    assert (
                        infos_of(infos["final_info"], row)
                        == infos_of(theirs["final_info"], row)
                        == {}
                    )
                ends += done
    assert ends > 10


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
        check_against_single_environments(to_same_step(batch), plans, steps=15)


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


@pytest.mark.parametrize("masked_reset", ["all", "part"])
def test_ignored_masks_are_noticed(masked_reset):
    batch = CountingVectorEnv((5, 3), AutoresetMode.NEXT_STEP, masked_reset=masked_reset)
    envs = to_same_step(batch)
    envs.reset()
    for _ in range(2):
        envs.step(np.zeros(2, int))
    with pytest.raises(ValueError, match="CountingVectorEnv.*can't reset a part"):
        envs.step(np.zeros(2, int))
