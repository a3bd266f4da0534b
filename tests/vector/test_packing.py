import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from agents.shared_memory.shared_arrays import ALIGNMENT, Results
from agents.spaces import flatten
from agents.vector.autoreset import to_same_step
from agents.vector.batch_env import BatchEnv
from agents.vector.packing import PackedSteps


class Countdown(gymnasium.Env):
    """Observes its step count; terminates after `length` steps; infos hold numbers."""

    observation_space = spaces.Dict(
        count=spaces.Box(0, 1000, (2,), np.float32), image=spaces.Box(0, 255, (2, 2), np.uint8)
    )
    action_space = spaces.Discrete(2)

    def __init__(self, length, speed=1.5):
        self.length, self.speed = length, speed

    def observe(self):
        image = np.full((2, 2), 10 * self.count, np.uint8)
        return {"count": np.full(2, self.count, np.float32), "image": image}

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return self.observe(), {"first": 1.0}

    def step(self, action):
        self.count += 1
        info = {"speed": self.speed * self.count}
        return self.observe(), self.count / 4, self.count == self.length, False, info


LENGTHS = (2, 3, 1000)


def constructors():
    return [lambda length=length: Countdown(length) for length in LENGTHS]


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
        SyncVectorEnv([lambda: Countdown(9, speed="x")], autoreset_mode=AutoresetMode.SAME_STEP),
        info_keys=["speed"],
    )
    env.reset(seed=0)
    with pytest.raises(TypeError, match="info_keys: 'speed' is .*not numbers"):
        env.step_packed(np.zeros(1, int))
    env.close()


class Forgetful(VectorEnv):
    """Returns no final observations."""

    num_envs = 2
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    single_observation_space = spaces.Box(0, 1, (1,), np.float32)
    single_action_space = spaces.Discrete(2)

    def step(self, actions):
        observ = np.zeros((2, 1), np.float32)
        return observ, np.zeros(2), np.array(actions, bool), np.zeros(2, bool), {}


def test_missing_final_observations_are_refused():
    env = PackedSteps(Forgetful())
    results = Results(env.layout, env.step_packed(np.array([0, 0])))
    assert not flatten(Forgetful.single_observation_space, results.observ)[0][0].any()
    with pytest.raises(ValueError, match="Forgetful.*no infos.'final_obs'."):
        env.step_packed(np.array([0, 1]))
