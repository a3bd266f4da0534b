"""Runs with initial weights, of each kind of policy that is deployed."""

from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from agents.deployment.space_json import spaces_to_json
from agents.policies.policy import Policy
from agents.runs.checkpoint import Checkpoints
from agents.runs.run_directory import RunDirectory
from agents.settings.config_file import load_config
from agents.spaces import flatten, pack
from agents.types import Space


class Kind(NamedTuple):
    """Spaces of the environment, and settings."""

    spaces: tuple[Space, Space]
    settings: dict


NUMBERS, TORQUES = spaces.Box(-1, 1, (3,)), spaces.Box(-2, 2, (2,))
KINDS = {
    "gaussian": Kind((NUMBERS, TORQUES), {"layers": [64, 64]}),
    "beta": Kind((NUMBERS, TORQUES), {"policy": "beta", "layers": [8]}),
    "squashed": Kind(
        (NUMBERS, TORQUES),
        {"policy": "squashed_gaussian", "state_dependent_std": True, "layers": [8]},
    ),
    "categorical": Kind((NUMBERS, spaces.Discrete(3, start=-1)), {"layers": [8]}),
    "multi-categorical": Kind(
        (spaces.MultiDiscrete([[2, 3], [4, 2]]), spaces.MultiDiscrete([2, 3])), {"layers": [8]}
    ),
    "recurrent": Kind(
        (NUMBERS, TORQUES), {"recurrent": "gru", "recurrent_units": 8, "layers": [8]}
    ),
    "recurrent lstm": Kind(
        (NUMBERS, spaces.Discrete(3)), {"recurrent": "lstm", "recurrent_units": 8, "layers": [8]}
    ),
    "image": Kind(
        (spaces.Box(0, 255, (36, 36, 2), np.uint8), spaces.Discrete(4)),
        {"network": "nature", "shared_torso": True},
    ),
    "masked dict": Kind(
        (
            spaces.Dict(
                {
                    "action_mask": spaces.MultiBinary(4),
                    "place": spaces.Discrete(3),
                    "numbers": spaces.Box(-np.inf, np.inf, (2,), np.float64),
                }
            ),
            spaces.Discrete(4, start=1),
        ),
        {"action_mask": True, "layers": [8]},
    ),
    "tuple": Kind(
        (
            spaces.Tuple([spaces.Box(-1, 1, (1,)), spaces.Dict(goal=spaces.Box(-1, 1, (2,)))]),
            TORQUES,
        ),
        {"layers": [8]},
    ),
    "dict actions": Kind(
        (
            NUMBERS,
            spaces.Dict(
                move=TORQUES, tool=spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(2)])
            ),
        ),
        {"layers": [8]},
    ),
}


def save_run(kind, folder):
    """Saves a run with a checkpoint of initial weights, scaled up so that actions differ."""
    config = load_config("default", env="Untrained-v0", **kind.settings)
    run = RunDirectory(folder / f"20260131T120000-{len(list(folder.iterdir()))}")
    run.prepare(config)
    policy = Policy(*kind.spaces, config)
    rng = np.random.default_rng(0)
    for name, variable in policy.variables().items():
        if name.startswith("network/"):
            noise = rng.normal(0, 0.3, variable.shape)
            variable.assign_add(noise.astype(variable.dtype.as_numpy_dtype))
    record = {"spaces": spaces_to_json(*kind.spaces)}
    Checkpoints(run.checkpoints, policy.variables(), record).save(1)
    return run


def batches(space, num, seed=0):
    """A batch of random elements, leaves [num, ...]; unbounded numbers are normal."""
    space.seed(seed)
    rows = [flatten(space, space.sample()) for _ in range(num)]
    return pack(space, [np.stack(column) for column in zip(*rows, strict=True)])
