"""Leaf spaces and structures of them for property tests."""

import numpy as np
from gymnasium import spaces
from hypothesis import strategies
from hypothesis.extra import numpy as hypothesis_numpy

SHAPES = hypothesis_numpy.array_shapes(min_dims=0, max_dims=2, max_side=3)
LEAVES = strategies.one_of(
    SHAPES.map(lambda shape: spaces.Box(-0.7, 2, shape, np.float32)),
    SHAPES.map(lambda shape: spaces.Box(-np.inf, np.inf, shape, np.float64)),
    SHAPES.map(lambda shape: spaces.Box(-np.inf, 2, shape, np.float64)),
    SHAPES.map(lambda shape: spaces.Box(0, 200, shape, np.uint8)),
    SHAPES.map(lambda shape: spaces.Box(0, 255, shape, np.uint8)),
    strategies.builds(
        lambda n, start: spaces.Discrete(n, start=start),
        strategies.integers(1, 5),
        strategies.integers(-3, 3),
    ),
    strategies.lists(strategies.integers(1, 5), min_size=1, max_size=3).map(spaces.MultiDiscrete),
    strategies.just(spaces.MultiDiscrete([3, 4], start=[5, -2])),
    strategies.integers(1, 4).map(spaces.MultiBinary),
)
STRUCTURES = strategies.recursive(
    LEAVES,
    lambda children: strategies.one_of(
        strategies.dictionaries(
            strategies.sampled_from("zyxab"), children, min_size=1, max_size=3
        ).map(spaces.Dict),
        strategies.lists(children, min_size=1, max_size=3).map(spaces.Tuple),
    ),
    max_leaves=5,
)
