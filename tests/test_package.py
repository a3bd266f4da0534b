"""Builds the package, without an index, from a copy of the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import agents

ROOT = Path(__file__).parents[1]
SOURCES = ("agents", "batch_agents.py", "configs", "pyproject.toml", "setup.py")
SOURCES += ("README.md", "LICENSE")
BUILD_SDIST = "import setuptools.build_meta as backend; backend.build_sdist('sdist')"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what is packaged, whose version can be read but whose import fails."""
    folder = tmp_path_factory.mktemp("tree")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / name, folder)
    with (folder / "agents" / "__init__.py").open("a") as file:
        file.write("\nraise ImportError('a build must not import the library')\n")
    return folder


def build_wheel(source, folder):
    """Builds a wheel of a folder or an sdist; returns the names of its files."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--quiet", f"--wheel-dir={folder}", str(source)]
    subprocess.run(command, check=True, cwd=folder)
    [wheel] = folder.glob("*.whl")
    assert wheel.name == f"batch_agents-{agents.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def package_files(tree):
    """Names of the modules, the presets and the marker of types."""
    names = {
        Path(folder, name).relative_to(tree).as_posix()
        for folder, _, files in os.walk(tree / "agents", followlinks=True)
        for name in files
    }
    presets = {
        f"agents/presets/{path.relative_to(ROOT / 'configs')}"
        for path in (ROOT / "configs").rglob("*")
        if path.is_file()
    }
    modules = {name for name in names if name.endswith(".py")}
    assert presets <= names and "agents/ppo/ppo.py" in modules
    return modules | presets | {"agents/py.typed", "batch_agents.py"}


def test_a_wheel_has_all_modules_and_presets_and_nothing_else(tree, tmp_path):
    assert build_wheel(tree, tmp_path) == package_files(tree)


def test_a_wheel_of_the_source_distribution_has_the_same_files(tree, tmp_path):
    subprocess.run([sys.executable, "-c", BUILD_SDIST], check=True, cwd=tree, capture_output=True)
    [sdist] = (tree / "sdist").glob("*.tar.gz")
    assert build_wheel(sdist, tmp_path) == package_files(tree)
