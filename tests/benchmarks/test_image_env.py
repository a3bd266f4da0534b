import numpy as np
from gymnasium.utils.env_checker import check_env

from benchmarks.image_env import ImageEnv


def test_it_is_a_gymnasium_environment_whose_images_change():
    env = ImageEnv()
    check_env(env, skip_render_check=True)
    first, _ = env.reset(seed=0)
    second, reward, *_ = env.step(np.int64(0))
    third, other_reward, *_ = env.step(np.int64(0))
    assert (first != second).any() and (second != third).any()
    assert (reward, other_reward) == (1.0, 0.0)


def test_episodes_are_truncated():
    env = ImageEnv()
    env.reset()
    ends = [env.step(np.int64(0))[2:4] for _ in range(100)]
    assert ends[-1] == (False, True) and not any(map(any, ends[:-1]))
