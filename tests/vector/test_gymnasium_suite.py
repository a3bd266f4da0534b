"""Gymnasium's own tests of vector environments, on `BatchEnv`.

They are not part of Gymnasium's packages: `GYMNASIUM_SOURCE` is the path of a checkout of it, as of
https://github.com/Farama-Foundation/Gymnasium; without one this test is skipped.
"""

import os
import re
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

# In the names of cases, spaces whose elements are no arrays of a fixed shape.
NO_ARRAYS = re.compile(
    r"^test_(same_step_final_obs|vector_obs_action_spaces)\[.*(Text|Graph|Sequence|OneOf)\("
)
SHARING = ("Sync", "Async(shared_memory=True)", "Async(shared_memory=False)")

# Tests of Gymnasium 1.4 that fail, by the reason: names without brackets are of all their cases.
DIFFERENCES = {
    "elements are arrays of a fixed shape": [
        "test_custom_space_async_vector_env",
        "test_custom_space_sync_vector_env",
        NO_ARRAYS.pattern,
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
        function = NO_ARRAYS.pattern if NO_ARRAYS.search(name) else name.partition("[")[0]
        names[outcome == "PASSED"].add(function if function in expected else name)
    assert len(names[True]) > 150, result.stdout[-2000:]
    assert names[False] - expected == set()
    assert names[True] & expected == set()
