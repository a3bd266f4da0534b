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

# Tests that fail, by name, and why.
DIFFERENCES = {
    r".*(Graph|Text|Sequence|OneOf)\(.*|test_custom_space_.*": "elements are arrays of a fixed shape",
    r"test_(autoreset_next_step|autoreset_disabled|autoreset_metadata|partial_reset_failure"
    r"|final_obs_info|metadata_.*).*": "SAME_STEP only",
    r"test_autoreset_within_step.*": "observations of Discrete are NumPy's integers, not Python's",
    r".*(observation_mode|obs_mode|observation_spaces).*|test_check_spaces_.*": "spaces are equal",
    r"test_.*(timeout|out_of_order)_async_.*|test_async_vector_subenv_error": "errors and time-outs "
    "are of this library",
    r"test_action_count_compatibility.*": "one error for all actions, a ValueError",
    r"test_vector_return_info.*": "infos of the first and last steps of episodes only",
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
    assert sum(outcome == "PASSED" for outcome, _ in outcomes) > 150, result.stdout[-2000:]
    unknown = [
        name
        for outcome, name in outcomes
        if outcome != "PASSED" and not any(re.fullmatch(one, name) for one in DIFFERENCES)
    ]
    assert unknown == []
