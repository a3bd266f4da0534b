"""Episodes of scripted environments."""

import numpy as np


def frames(shape, dtype=np.float32, count=8):
    """Returns observations [...] of ones, twos, threes and so on."""
    return [np.full(shape, index + 1, dtype) for index in range(count)]


def play(env, actions, seed=None):
    """Returns copies of all observations, those of resets included."""
    observs = [np.copy(env.reset(seed=seed)[0])]
    for action in actions:
        observ, _, terminated, truncated, _ = env.step(action)
        observs.append(np.copy(observ))
        if terminated or truncated:
            observs.append(np.copy(env.reset()[0]))
    return observs
