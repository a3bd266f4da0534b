"""Gymnasium's own tests of vector environments, on `BatchEnv`.

They are not part of Gymnasium's packages: `GYMNASIUM_SOURCE` is the path of a checkout of it, as of
https://github.com/Farama-Foundation/Gymnasium; without one this test is skipped.
"""

import os
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = (
    "async_vector_env",
    "autoreset_mode",
    "observation_mode",
    "sync_vector_env",
    "vector_env",
    "vector_env_info",
    "vector_wrapper",
)

# Spaces whose elements are no arrays of a fixed shape.
LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
PLACE = "Box(-10.0, 10.0, (3,), float32)"
WEIGHT = "'type': Discrete({}), 'weight': Box(0.0, 1.0, (), float32)"
PAIR = "Box(-100.0, 100.0, (2,), float32)"
SPACES = [
    f"Text(1, 6, charset={LETTERS})",
    f"Text(3, 6, charset={LETTERS})",
    "Text(1, 6, charset=abcdef)",
    "Tuple(Graph(Box(-1.0, 1.0, (2, 1), float32), None), Discrete(2))",
    "Dict('a': Dict('a': Graph(Box(-100.0, 100.0, (2, 2), float32), None), "
    f"'b': Box(-100.0, 100.0, (2, 2), float32)), 'b': Tuple({PAIR}, {PAIR}))",
    "Graph(Box(-1.0, 1.0, (2,), float32), None)",
    "Graph(Box(-100.0, 100.0, (3, 4), float32), Discrete(5))",
    "Graph(Discrete(5), Box(-100.0, 100.0, (3, 4), float32))",
    "Graph(Discrete(3), Discrete(4))",
    "Graph(Dict('node_feature_1': Discrete(5), 'node_feature_2': MultiBinary(5)), Box(1.0, 4.0, (1,), float32))",
    "Graph(MultiBinary(4), None)",
    "Graph(MultiDiscrete([3 4 2]), Discrete(3))",
    "Graph(Tuple(Box(-1.0, 1.0, (2,), float32), Discrete(3)), None)",
    "Graph(Discrete(4), Tuple(Box(0.0, 1.0, (2,), float32), Discrete(3)))",
    f"Graph(Discrete(3), Dict({WEIGHT.format(4)}))",
    f"Graph(Dict('label': Discrete(5), 'pos': {PLACE}), Dict({WEIGHT.format(3)}))",
    "Graph(Tuple(Dict('a': Discrete(3)), MultiBinary(2)), Tuple(Discrete(4), Box(0.0, 1.0, (2,), float32)))",
    "Sequence(Discrete(4), stack=False)",
    "Sequence(Dict('feature': Box(0.0, 1.0, (3,), float32)), stack=False)",
    "Sequence(Graph(Box(-100.0, 100.0, (2, 2), float32), Discrete(4)), stack=False)",
    "Sequence(Box(0.0, 1.0, (1,), float32), stack=True)",
    "Sequence(Dict('a': Box(0.0, 1.0, (3,), float32), 'b': Discrete(5)), stack=True)",
    "OneOf(Discrete(3), Box(0.0, 1.0, (1,), float32))",
    "OneOf(MultiBinary(2), MultiDiscrete([2 2]))",
]
HOSTS = ("Sync", "Async with shared memory", "Async without shared memory")
SHARING = ("Sync", "Async(shared_memory=True)", "Async(shared_memory=False)")

# Tests of Gymnasium 1.4 that fail, by the reason: names without brackets are of all their cases.
DIFFERENCES = {
    "elements are arrays of a fixed shape": [
        "test_custom_space_async_vector_env",
        "test_custom_space_sync_vector_env",
        *(f"test_same_step_final_obs[{space}]" for space in SPACES),
        *(f"test_vector_obs_action_spaces[{space}-{host}]" for space in SPACES for host in HOSTS),
    ],
    "SAME_STEP is the only mode": [
        "test_autoreset_disabled",
        "test_autoreset_next_step",
        "test_final_obs_info",
        "test_metadata_async_vector_env",
        "test_metadata_sync_vector_env",
        "test_partial_reset_failure",
        *(f"test_autoreset_metadata[AutoresetMode.NEXT_STEP-{host}]" for host in SHARING),
        *(f"test_autoreset_metadata[AutoresetMode.DISABLED-{host}]" for host in SHARING),
    ],
    "observations of Discrete are NumPy's integers, not Python's": ["test_autoreset_within_step"],
    "spaces are equal": [
        "test_check_spaces_async_vector_env",
        "test_check_spaces_sync_vector_env",
        "test_invalid_observation_mode",
        "test_mixed_observation_spaces",
        "test_obs_mode_different_different_spaces",
        "test_obs_mode_same_different_spaces",
    ],
    "errors and time-outs are of this library": [
        "test_async_vector_subenv_error",
        "test_reset_out_of_order_async_vector_env",
        "test_reset_timeout_async_vector_env",
        "test_step_out_of_order_async_vector_env",
        "test_step_timeout_async_vector_env",
    ],
    "one error for all actions, a ValueError": ["test_action_count_compatibility"],
    "infos of the first and last steps of episodes only": ["test_vector_return_info"],
}


@pytest.mark.skipif("GYMNASIUM_SOURCE" not in os.environ, reason="needs GYMNASIUM_SOURCE")
def test_all_differences_from_gymnasium_are_known():
    source = Path(os.environ["GYMNASIUM_SOURCE"])
    files = [str(source / "tests" / "vector" / f"test_{name}.py") for name in FILES]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "gymnasium_plugin", "--tb=no", "-rA", *files],
        cwd=source,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{ROOT}", "PYTHONSAFEPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = re.findall(
        r"^(PASSED|FAILED|ERROR) \S+?::(?:\w+::)?(.*?)(?: - .*)?$", result.stdout, re.M
    )
    expected = set().union(*DIFFERENCES.values())
    names = {True: set(), False: set()}  # By whether a test passed.
    for outcome, name in outcomes:
        function = name.partition("[")[0]
        names[outcome == "PASSED"].add(function if function in expected else name)
    assert len(names[True]) > 150, result.stdout[-2000:]
    assert names[False] - expected == set()
    assert names[True] & expected == set()
