import contextlib
import functools

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agents.errors import InvalidDataError
from agents.vector.autoreset import to_same_step
from agents.vector.batch_env import BatchEnv
from agents.vector.packing import PackedSteps
from agents.workers.shared_arrays import ALIGNMENT, Results
from tests.faulty_toys import CountingVectorEnv
from tests.toys import CountingEnv

OBSERVATIONS = spaces.Dict(
    count=spaces.Box(0, 1000, (2,), np.float32), image=spaces.Box(0, 255, (2, 2), np.uint8)
)
LENGTHS = (2, 3, 1000)


def quarter_of_steps(steps, action):
    return steps / 4


def counting(length, speed=1.5):
    """An environment that terminates after `length` steps, whose infos hold its speed."""
    return CountingEnv(
        [(length, "terminated")],
        OBSERVATIONS,
        reward=quarter_of_steps,
        info=lambda steps: {"speed": speed * steps} if steps else {"first": 1.0},
    )


def constructors():
    return [functools.partial(counting, length) for length in LENGTHS]


def leaves(results):
    named = [results.reward, results.terminated, results.truncated, *results.info.values()]
    return [*results.observ, *results.final_observ, *named]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_packed_steps_equal_those_of_a_batch_env(mode):
    packed = PackedSteps(
        to_same_step(SyncVectorEnv(constructors(), autoreset_mode=mode)), info_keys=["speed"]
    )
    batch = BatchEnv([make() for make in constructors()], blocking=True, info_keys=["speed"])
    packed.reset(seed=0)
    batch.reset(seed=0)
    for _ in range(7):
        actions = np.zeros(3, int)
        ours, theirs = (Results(env.layout, env.step_packed(actions)) for env in (packed, batch))
        done = ours.terminated | ours.truncated
        for ours_leaf, theirs_leaf in zip(ours.final_observ, theirs.final_observ, strict=True):
            np.testing.assert_array_equal(ours_leaf[done], theirs_leaf[done])
        ours.final_observ, theirs.final_observ = [], []  # Arbitrary in the other rows.
        for ours_leaf, theirs_leaf in zip(leaves(ours), leaves(theirs), strict=True):
            np.testing.assert_array_equal(ours_leaf, theirs_leaf)
    packed.close()
    batch.close()


def same_step(make, info_keys=()):
    batch = SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)
    return contextlib.closing(PackedSteps(batch, info_keys))


def test_blocks_are_new_and_aligned_and_a_missing_info_is_nan():
    with same_step(constructors(), ["sped"]) as env:
        env.reset(seed=0)
        blocks = [env.step_packed(np.zeros(3, int)) for _ in range(3)]
        results = [Results(env.layout, block) for block in blocks]
        assert [result.observ[0][2, 0] for result in results] == [1, 2, 3]
        assert all(np.isnan(result.info["sped"]).all() for result in results)
        assert all(block.ctypes.data % ALIGNMENT == 0 for block in blocks)
        assert [block.shape for block in blocks] == [(env.layout.size,)] * 3
        assert env.info_names == {"speed", "first"}


def test_an_info_that_is_not_a_number_is_refused():
    with same_step([lambda: counting(9, speed="x")], ["speed"]) as env:
        env.reset(seed=0)
        with pytest.raises(TypeError, match="info_keys: 'speed' is .*not numbers"):
            env.step_packed(np.zeros(1, int))


def test_missing_final_observations_are_refused():
    env = PackedSteps(CountingVectorEnv((3, 2), without_final_obs=True))
    env.reset(seed=0)
    results = Results(env.layout, env.step_packed(np.array([0, 0])))
    np.testing.assert_array_equal(results.observ[0], np.ones((2, 16)))
    with pytest.raises(ValueError, match="CountingVectorEnv.*expected infos.'final_obs'. "):
        env.step_packed(np.array([0, 0]))


def test_environments_may_change_their_actions():
    class Doubling(CountingEnv):
        def step(self, action):
            results = super().step(action)
            action *= 2
            return results

    make = functools.partial(Doubling, action_space=spaces.Box(-9, 9, (2,)))
    with same_step([make] * 3) as packed:
        packed.reset()
        actions = np.ones((3, 2), np.float32)
        packed.step_packed(actions)
        np.testing.assert_array_equal(actions, 1)


@pytest.mark.parametrize(
    ("convert", "error"),
    [
        (lambda observ: observ.astype(np.float64), None),
        (lambda observ: observ[:, :3], r"observation float32 \(2, 3\), expected float32 \(2, 16\)"),
        (lambda observ: observ.astype(complex), "observation complex"),
    ],
)
def test_first_observations_are_converted_or_refused_as_later_ones(convert, error):
    class Converting(CountingVectorEnv):
        def reset(self, **kwargs):
            observ, infos = super().reset(**kwargs)
            return convert(observ), {
                **infos,
                "action_mask": np.ones((2, 2)),
                "_action_mask": [1, 1],
            }

    env = PackedSteps(Converting((3, 2)))
    with (
        contextlib.nullcontext() if error is None else pytest.raises(InvalidDataError, match=error)
    ):
        observ, _ = env.reset(seed=0)
        assert observ.dtype == np.float32 and env.info_names == {"action_mask"}
