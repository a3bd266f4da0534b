import importlib.util

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agents.environments.atari import EpisodicLife, FireStart, preprocess, sign_of_reward

needs_ale = pytest.mark.skipif(
    not (importlib.util.find_spec("ale_py") and importlib.util.find_spec("cv2")),
    reason="needs the extra atari",
)


class Game(gymnasium.Env):
    """Reports the given numbers of lives; the last one ends the game. Records resets and actions."""

    observation_space = spaces.Box(0, 99, (), np.int64)
    action_space = spaces.Discrete(3)

    def __init__(self, lives, ending="terminated"):
        self.lives, self.ending = lives, ending
        self.calls = []

    def get_action_meanings(self):
        return ["NOOP", "FIRE", "RIGHT"]

    def reset(self, *, seed=None, options=None):
        self.calls.append("reset" if seed is None else f"seed {seed}")
        self.time = 0
        return np.array(0), {"lives": self.lives[0]}

    def step(self, action):
        self.calls.append(int(action))
        self.time += 1
        done = self.time == len(self.lives) - 1
        flags = (done and self.ending == "terminated", done and self.ending == "truncated")
        return np.array(self.time), 1.0, *flags, {"lives": self.lives[self.time]}


def steps(env, actions):
    """Returns observations and flags."""
    return [
        (int(observ), terminated, truncated)
        for observ, _, terminated, truncated, _ in map(env.step, actions)
    ]


def test_lives_are_episodes_of_one_game():
    game = Game([2, 2, 1, 1, 1, 0])
    env = EpisodicLife(game)
    env.reset(seed=5)
    assert steps(env, [2, 2]) == [(1, False, False), (2, True, False)]
    observ, info = env.reset()
    assert (int(observ), info["lives"]) == (3, 1), "the game continues with a no-op"
    assert steps(env, [2, 2]) == [(4, False, False), (5, True, False)]
    assert env.reset()[0] == 0, "the game was over"
    assert game.calls == ["seed 5", 2, 2, 0, 2, 2, "reset"]


def test_a_seed_always_starts_a_new_game():
    game = Game([2, 1, 1, 1, 0])
    env = EpisodicLife(game)
    env.reset(seed=5)
    assert steps(env, [2]) == [(1, True, False)]
    assert env.reset(seed=6)[0] == 0
    assert steps(env, [2]) == [(1, True, False)], "lives are counted from the start"
    assert game.calls == ["seed 5", 2, "seed 6", 2]


@pytest.mark.parametrize(
    ("lives", "ending", "actions", "expected", "calls"),
    [
        ([3, 3, 3], "truncated", [2, 2], [(1, False, False), (2, False, True)], [2, 2]),
        ([2, 1, 0], "terminated", [2], [(1, True, False)], [2, 0]),  # The reset's no-op ends it.
        (
            [1, 0, 0, 0],
            "terminated",
            [2] * 3,
            [(1, False, False), (2, False, False), (3, True, False)],
            [2] * 3,
        ),
    ],
)
def test_a_game_that_is_over_starts_again(lives, ending, actions, expected, calls):
    game = Game(lives, ending)
    env = EpisodicLife(game)
    env.reset()
    assert steps(env, actions) == expected
    observ, info = env.reset()
    assert (int(observ), info["lives"]) == (0, lives[0])
    assert game.calls == ["reset", *calls, "reset"]


def test_fire_is_pressed_at_the_start_and_after_a_lost_life():
    game = Game([2, 2, 1, 1, 1])
    env = FireStart(game)
    assert env.reset(seed=1)[0] == 1
    steps(env, [2, 2, 2])
    assert game.calls == ["seed 1", 1, 2, 1, 2], "replaces the action after the lost life"
    game = Game([1, 0])
    assert FireStart(game).reset(seed=1)[0] == 0
    assert game.calls == ["seed 1", 1, "reset"], "FIRE ended the game"
    game = Game([3, 3, 2, 2, 2, 1, 1, 1, 1])
    env = EpisodicLife(FireStart(game))
    env.reset()
    for _ in range(4):
        if env.step(2)[2]:
            env.reset()
    assert game.calls == ["reset", 1, 2, 1, 2, 2, 1, 2], "FIRE never replaces an action"


def test_rewards_are_clipped_to_their_sign():
    class Rewards(Game):
        def step(self, action):
            return np.array(0), [-3.5, 0.0, 200.0][action], False, False, {"lives": 1}

    env = sign_of_reward(Rewards([1]))
    env.reset()
    assert [env.step(action)[1] for action in range(3)] == [-1.0, 0.0, 1.0]


def atari(game, **kwargs):
    import ale_py

    gymnasium.register_envs(ale_py)
    settings = {
        "frameskip": 1,
        "repeat_action_probability": 0.0,
        "full_action_space": False,
        **kwargs,
    }
    return gymnasium.make(f"ALE/{game}-v5", disable_env_checker=True, **settings)


@needs_ale
def test_frames_of_pong():
    env = preprocess(atari("Pong"))
    observ, _ = env.reset(seed=3)
    assert observ in env.observation_space
    assert (observ.shape, observ.dtype) == ((84, 84, 4), np.uint8)
    assert all((observ[..., age] == observ[..., 3]).all() for age in range(3)), (
        "the first frame four times"
    )
    rewards, shift = [], False
    for _ in range(120):
        after, reward, *_, info = env.step(0)
        np.testing.assert_array_equal(after[..., :3], observ[..., 1:])
        shift |= bool((after[..., 3] != observ[..., 3]).any())
        frames = info["frame_number"]
        observ = after
        rewards.append(reward)
    assert shift and -1.0 in rewards, "the ball moves and is missed"
    env.step(0)
    assert env.step(0)[4]["frame_number"] == frames + 8, "four frames per step"


@needs_ale
def test_lives_of_breakout_are_episodes():
    env = sign_of_reward(EpisodicLife(preprocess(atari("Breakout"))))
    _, info = env.reset(seed=1)
    lives, frames = [info["lives"]], [info["frame_number"]]
    for _ in range(3):
        terminated = False
        while not terminated:
            _, reward, terminated, truncated, info = env.step(0)
            assert reward in (0.0, 1.0) and not truncated
        lives.append(info["lives"])
        frames.append(info["frame_number"])
        env.reset()
    assert lives == [5, 4, 3, 2]
    assert frames[-1] < 1000, "FIRE was pressed for every life: without it, no life is lost"
    assert env.reset(seed=1)[1]["lives"] == 5
    with pytest.raises(ValueError, match="frame-skipping"):
        preprocess(atari("Pong", frameskip=4))
