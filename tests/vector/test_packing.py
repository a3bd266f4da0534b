import functools

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

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


def test_blocks_are_new_and_aligned():
    env = PackedSteps(SyncVectorEnv(constructors(), autoreset_mode=AutoresetMode.SAME_STEP))
    env.reset(seed=0)
    blocks = [env.step_packed(np.zeros(3, int)) for _ in range(3)]
    counts = [Results(env.layout, block).observ[0][2, 0] for block in blocks]
    assert counts == [1, 2, 3]
    assert all(block.ctypes.data % ALIGNMENT == 0 for block in blocks)
    assert [block.shape for block in blocks] == [(env.layout.size,)] * 3
    env.close()


def test_a_missing_info_is_nan_and_the_names_seen_are_kept():
    env = PackedSteps(
        SyncVectorEnv(constructors(), autoreset_mode=AutoresetMode.SAME_STEP), info_keys=["sped"]
    )
    env.reset(seed=0)
    for _ in range(3):
        numbers = Results(env.layout, env.step_packed(np.zeros(3, int))).info["sped"]
        assert np.isnan(numbers).all()
    assert env.info_names == {"speed", "first"}
    env.close()


def test_an_info_that_is_not_a_number_is_refused():
    env = PackedSteps(
        SyncVectorEnv([lambda: counting(9, speed="x")], autoreset_mode=AutoresetMode.SAME_STEP),
        info_keys=["speed"],
    )
    env.reset(seed=0)
    with pytest.raises(TypeError, match="info_keys: 'speed' is .*not numbers"):
        env.step_packed(np.zeros(1, int))
    env.close()


def test_missing_final_observations_are_refused():
    env = PackedSteps(CountingVectorEnv((3, 2), without_final_obs=True))
    env.reset(seed=0)
    results = Results(env.layout, env.step_packed(np.array([0, 0])))
    np.testing.assert_array_equal(results.observ[0], np.ones((2, 16)))
    with pytest.raises(ValueError, match="CountingVectorEnv.*no infos.'final_obs'."):
        env.step_packed(np.array([0, 0]))


def test_environments_may_change_their_actions():
    class Doubling(CountingEnv):
        def step(self, action):
            results = super().step(action)
            action *= 2
            return results

    space = spaces.Box(-9, 9, (2,))
    packed = PackedSteps(
        SyncVectorEnv(
            [functools.partial(Doubling, action_space=space)] * 3,
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
    )
    packed.reset()
    actions = np.ones((3, 2), np.float32)
    packed.step_packed(actions)
    np.testing.assert_array_equal(actions, 1)
