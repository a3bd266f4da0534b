"""The Dockerfile, as far as it can be checked without a registry."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = ("FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "ENTRYPOINT", "CMD")


@pytest.fixture
def instructions():
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_instructions_are_known_and_in_order(instructions):
    names = [name for name, _ in instructions]
    assert set(names) <= set(INSTRUCTIONS) and names[0] == "FROM"
    assert names.index("COPY") < names.index("USER") < names.index("ENTRYPOINT")
    for name, value in instructions:
        if name in ("ENTRYPOINT", "CMD"):  # Signals reach the command, and no shell.
            assert all(isinstance(each, str) for each in json.loads(value))
        if name == "FROM":  # The same image tomorrow.
            assert re.fullmatch(r"python:3\.1[0-3]-[a-z-]+", value)
        if name == "USER":
            assert value not in ("root", "0")
        if name == "RUN":
            assert subprocess.run(["sh", "-n", "-c", value]).returncode == 0
            assert "sudo" not in value and ("apt-get update" in value) == (
                "apt-get install" in value
            )


def test_copied_files_are_all_that_the_package_needs(instructions, tmp_path):
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for name, value in instructions:
        if name == "COPY":
            *sources, _ = value.split()
            for source in sources:
                assert (ROOT / source).exists() and f"!{source}" in ignored
                target = tmp_path / source
                subprocess.run(["cp", "-r", str(ROOT / source), str(target)], check=True)
    code = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    built = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    assert "agents/presets/pendulum.yaml" in zipfile.ZipFile(wheel).namelist()
