"""Folders of installed packages with this library's package and others of the same name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agents.settings.installation import DISTRIBUTION, check_package, install_command
from agents.version import __version__

ROOT = Path(__file__).parents[2]
OURS = [f"agents/{name}.py" for name in ("__init__", "lazy_import", "version")]
OURS += [f"agents/{name}.py" for name in ("settings/__init__", "settings/installation")]
OURS += [
    "agents/settings/peer_names.py",
    "agents/settings/search_path.py",
    "agents/scripts/__init__.py",
    "batch_agents.py",
]
THEIRS = ["agents/__init__.py", "agents/run.py", "agents/version.py"]


def install(site, name, version, files):
    """Writes what pip leaves of a distribution; files are texts by name."""
    for file, text in files.items():
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_text(text)
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def install_ours(site):
    install(site, DISTRIBUTION, __version__, {file: (ROOT / file).read_text() for file in OURS})


def install_theirs(site):
    install(site, "their-agents", "2.0", dict.fromkeys(THEIRS, "__version__ = '2.0'\n"))


def run(arguments, *sites, cwd):
    """Runs Python in a folder with others on its path; returns its last lines of errors."""
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sites))},
        capture_output=True,
        text=True,
    )
    return process.returncode, process.stderr.splitlines()[-2:]


@pytest.mark.parametrize("arguments", [["-m", "batch_agents"], ["-c", "import agents"]])
def test_another_distribution_in_the_same_folder(arguments, tmp_path):
    site = tmp_path / "site"
    install_ours(site)
    install_theirs(site)
    by_theirs = run(arguments, site, cwd=tmp_path)
    for file in OURS:  # As if this library was installed last.
        shutil.copy(ROOT / file, site / file)
    by_ours = run(arguments, site, cwd=tmp_path)
    # Their package imports nothing of ours.
    for code, lines in [by_ours] + [by_theirs] * (arguments[0] == "-m"):
        assert code == (2 if "batch_agents" in arguments else 1)
        assert "another package 'agents' is installed: that of their-agents 2.0, in " in lines[0]
        assert lines[0].endswith(str(site / "agents"))
        assert lines[1].endswith("uninstall their-agents, and install batch-agents again")


@pytest.mark.parametrize("arguments", [["-m", "batch_agents"], ["-m", "agents.scripts.train"]])
def test_uninstalling_another_distribution_removed_files(arguments, tmp_path):
    install_ours(tmp_path / "site")
    (tmp_path / "site" / "agents" / "__init__.py").unlink()
    code, lines = run(arguments, tmp_path / "site", cwd=tmp_path)
    # An editable installation of this library may follow on the path.
    assert code and "has no __init__.py" in lines[0], lines
    assert lines[1] == "install batch-agents again"


def test_another_package_in_front_of_this_one(tmp_path):
    install_ours(tmp_path / "ours")
    install_theirs(tmp_path / "theirs")
    code, lines = run(["-m", "batch_agents"], tmp_path / "theirs", tmp_path / "ours", cwd=tmp_path)
    assert code == 2 and lines[1].endswith("uninstall their-agents")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").touch()  # A folder of users.
    code, lines = run(["-m", "batch_agents"], tmp_path / "ours", cwd=tmp_path)
    assert code == 2 and lines[1].startswith("rename its folder")


def test_the_command_finds_modules_in_its_folder(tmp_path):
    module = "import gymnasium; gymnasium.register('Mine-v0', entry_point='my_module:Mine')\n"
    (tmp_path / "my_module.py").write_text(module)
    command = [str(ROOT / "batch_agents.py"), "train", "--env=my_module:Mime-v0"]
    code, lines = run(command, cwd=tmp_path)
    assert code == 2 and "Mine-v0" in lines[-1], lines


SHADOWS = ["agents", "numpy", "pydantic", "keras", "queue", "random", "typing", "__future__", "jax"]


DRY_RUN = ["--config=default", "--num-envs=1", "--env-backend=process", "--dry-run"]


@pytest.mark.parametrize(
    "command",
    [
        [str(ROOT / "batch_agents.py"), "train", "--list"],
        ["-m", "agents.scripts.train", *DRY_RUN],  # Imports TensorFlow, and starts a worker.
        ["-um", "agents", "train", "--list"],
        ["-Bmagents", "train", "--list"],
    ],
)
def test_no_file_of_the_current_folder_replaces_a_module(command, tmp_path):
    """Neither in the command nor in workers; `-m` looks for `agents` there before all else."""
    for name in SHADOWS[command[0].startswith("-") :]:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'a')")
    code, lines = run(command, ROOT, cwd=tmp_path)
    assert code == 0, lines
    assert not (tmp_path / "executed").exists()


def test_another_package_behind_this_one(tmp_path):
    install_ours(tmp_path / "ours")
    install_theirs(tmp_path / "theirs")
    sites = tmp_path / "ours", tmp_path / "theirs"
    code, lines = run(["-c", "import agents"], *sites, cwd=tmp_path)
    assert code == 1 and lines[1].endswith("uninstall their-agents")


def test_two_copies_of_this_library_are_no_error(tmp_path):
    install_ours(tmp_path / "first")
    install_ours(tmp_path / "second")
    (tmp_path / "first" / "agents" / "mine.py").touch()  # Of no distribution.
    sites = tmp_path / "first", tmp_path / "second"
    assert run(["-c", "import agents"], *sites, cwd=tmp_path) == (0, [])


def test_this_installation_is_right():
    check_package(str(ROOT / "agents" / "__init__.py"))


def test_extras_are_installed_as_this_library_was(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert install_command("mujoco").endswith("pip install -e '.[mujoco]'")
    monkeypatch.chdir(tmp_path)
    assert install_command("mujoco").endswith(f"pip install -e '{ROOT}[mujoco]'")
    monkeypatch.setattr("agents.settings.installation._HOME", str(tmp_path))
    assert install_command("mujoco").endswith("pip install 'batch-agents[mujoco]'")


def test_pip_is_that_of_this_python(tmp_path, monkeypatch):
    for folder, command in ((Path(sys.executable).parent, "pip"), (tmp_path, "python")):
        (tmp_path / "pip").write_text("#!/bin/sh\n")
        (tmp_path / "pip").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        first = install_command("atari").split()[0]
        assert Path(first).name.startswith(command)
        assert (first == "pip") == (command == "pip")
