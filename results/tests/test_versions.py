import importlib.metadata
import re

from results.versions import versions

GYMNASIUM = importlib.metadata.version("gymnasium")


def test_versions_are_those_of_the_family_and_of_what_all_need():
    found = versions("Humanoid-v5")
    assert found["gymnasium"] == GYMNASIUM and "tensorflow" in found
    assert found["mujoco"] == importlib.metadata.version("mujoco")
    assert set(found) == {"agents", "gymnasium", "tensorflow", "mujoco"}
    assert re.fullmatch(r"[0-9a-f]{7,}\+?", found["agents"])
