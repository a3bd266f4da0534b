"""Runs whose configuration names modules that lie in their own folder: nothing is executed."""

import contextlib
import importlib
import itertools
import os
import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from gymnasium import spaces

import agents
from agents.deployment.space_json import spaces_to_json
from agents.deployment.trained_policy import load_policy
from agents.environments.registration import find_spec
from agents.errors import UsageError
from agents.runs.checkpoint_files import write
from agents.runs.run_directory import RunDirectory
from agents.scripts import sweep
from agents.scripts import train as train_script
from agents.scripts.train import train
from agents.scripts.visualize import visualize
from agents.settings import current_folder
from agents.settings.config_file import load_config, save_config
from agents.settings.entry_points import load_function, refusing_modules_in

ROOT = Path(agents.__file__).parents[1]
RUN = "20260131T120000-default"
EVIL = """
import pathlib
pathlib.Path({marker!r}).touch()

def evil(*arguments):
    return arguments[0]
"""
numbers = itertools.count()


class Attack:
    """A run, a project beside its logdir, and a way to place a module of a new name."""

    def __init__(self, folder, patch):
        self.folder, self.patch, self.marker = folder, patch, folder / "executed"
        self.logdir, self.project = folder / "logs", folder / "project"
        self.run, self.name = self.logdir / RUN, f"evil_{next(numbers)}"
        self.run.mkdir(parents=True)
        self.project.mkdir()

    def write(self, path, text=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(EVIL.format(marker=str(self.marker)) if text is None else text)
        return path

    def search(self, *folders):
        for folder in folders:
            self.patch.syspath_prepend(folder)
        importlib.invalidate_caches()


def module_in_run(attack):
    attack.write(attack.run / f"{attack.name}.py")
    attack.search(attack.run)
    return attack.name


def current_directory_is_the_run(attack):
    attack.write(attack.run / f"{attack.name}.py")
    attack.patch.chdir(attack.run)
    attack.search("")
    return attack.name


def module_beside_the_logdir(attack):
    """In the folder that was unpacked, in which the command is started."""
    attack.write(attack.folder / f"{attack.name}.py")
    attack.patch.chdir(attack.folder)
    return attack.name


def namespace_beside_the_logdir(attack):
    attack.write(attack.folder / attack.name / "part.py")
    attack.patch.chdir(attack.folder)
    attack.search("")
    return f"{attack.name}.part"


def namespace_of_the_logdir(attack):
    attack.write(attack.run / f"{attack.name}.py")
    attack.search(attack.folder)
    return f"logs.{RUN}.{attack.name}"


def package_in_logdir(attack):
    attack.write(attack.logdir / attack.name / "__init__.py")
    attack.write(attack.logdir / attack.name / "part.py", "def evil(env): return env")
    attack.search(attack.logdir)
    return f"{attack.name}.part"


def parent_package_outside(attack):
    package = attack.project / attack.name
    attack.write(package / "__init__.py", f"__path__.append({str(attack.run)!r})")
    attack.write(attack.run / "part.py")
    attack.search(attack.project)
    return f"{attack.name}.part"


def namespace_of_two_folders(attack):
    attack.write(attack.project / attack.name / "good.py", "")
    attack.write(attack.run / attack.name / "part.py")
    attack.search(attack.run, attack.project)
    return f"{attack.name}.part"


def link_to_a_module(attack):
    evil = attack.write(attack.run / "evil.py")
    (attack.project / f"{attack.name}.py").symlink_to(evil)
    attack.search(attack.project)
    return attack.name


def logdir_is_a_link(attack):
    attack.logdir.rename(attack.folder / "disk")
    attack.logdir.symlink_to(attack.folder / "disk")
    attack.write(attack.folder / "disk" / f"{attack.name}.py")
    attack.search(attack.folder / "disk")
    return attack.name


def compiled_module(attack):
    source = attack.write(attack.run / "source.py")
    py_compile.compile(str(source), str(attack.run / f"{attack.name}.pyc"))
    attack.search(attack.run)
    return attack.name


def zip_archive(attack):
    archive = attack.run / "modules.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(f"{attack.name}.py", EVIL.format(marker=str(attack.marker)))
    attack.search(archive)
    return attack.name


def imported_by_a_good_module(attack):
    attack.write(attack.logdir / f"{attack.name}_helper.py")
    attack.write(attack.project / f"{attack.name}.py", f"import {attack.name}_helper")
    attack.search(attack.logdir, attack.project)
    return attack.name


ATTACKS = [
    module_in_run, current_directory_is_the_run, module_beside_the_logdir,
    namespace_beside_the_logdir, namespace_of_the_logdir, package_in_logdir, parent_package_outside,
    namespace_of_two_folders, link_to_a_module, logdir_is_a_link, compiled_module,
    zip_archive, imported_by_a_good_module,
]  # fmt: skip


@pytest.fixture
def attack(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(current_folder, "_folder", "")
    monkeypatch.setattr(current_folder, "_is_searched", False)
    monkeypatch.setenv(current_folder.NAMED, "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Attack(tmp_path, monkeypatch)


def prepare(attack, place, setting="env_wrappers"):
    """Writes the configuration of a run that names a module in the run's folder."""
    name = place(attack)
    entry = f"{name}:My-v0" if setting == "env" else f"{name}:evil"
    value = (entry,) if setting.endswith("wrappers") else entry
    run = RunDirectory(attack.run)
    run.prepare(load_config("default", num_envs=1, eval_episodes=1, **{setting: value}))
    return run


def check_refused(attack, setting, function):
    current_folder.begin_command()
    with pytest.raises(UsageError) as raised:
        function()
    message = str(raised.value)
    assert setting in message and attack.name in message
    assert "a folder of runs" in message or "not imported from the current folder" in message
    assert len(message.splitlines()) <= 3
    assert not attack.marker.exists()


@pytest.mark.parametrize("place", ATTACKS, ids=lambda place: place.__name__)
def test_modules_of_a_run_that_is_resumed_are_refused(attack, place):
    run = prepare(attack, place)
    check_refused(attack, "env_wrappers", lambda: next(train(run.load_config(), run)))
    command = [f"--logdir={run.path.parent}", f"--timestamp={run.timestamp}", "--dry-run"]
    check_refused(attack, "env_wrappers", lambda: train_script.main(command))


@pytest.mark.parametrize("setting", ["env", "network", "algorithm", "policy", "train_wrappers"])
def test_every_setting_that_names_a_module_is_checked(attack, setting):
    run = prepare(attack, module_beside_the_logdir, setting)
    check_refused(attack, setting, lambda: next(train(run.load_config(), run)))


def test_a_new_run_with_the_settings_of_another_names_nothing_that_lies_beside_that(attack):
    run = prepare(attack, module_beside_the_logdir)
    run.checkpoints.mkdir()
    arguments = [f"--logdir={attack.project}", f"--config={run.config_file}"]
    check_refused(attack, "env_wrappers", lambda: train_script.main(arguments))


def test_a_sweep_that_is_continued_names_nothing_that_lies_beside_it(attack):
    pytest.importorskip("optuna")
    name, started = module_beside_the_logdir(attack), "20260131T120001"
    config = load_config("cartpole", env_wrappers=(f"{name}:evil",), steps=100)
    path = attack.logdir / f"{started}-sweep-cartpole"
    path.mkdir()
    save_config(config, path / "settings.yaml")
    (path / "space.yaml").write_text("epochs: {choices: [1, 2]}")
    arguments = [f"--logdir={attack.logdir}", f"--timestamp={started}", "--trials=1"]
    check_refused(attack, "env_wrappers", lambda: sweep.main(arguments))


@pytest.mark.parametrize("setting", ["env", "env_wrappers"])
def test_visualize_checks_the_environment(attack, setting):
    run = prepare(attack, module_in_run, setting)
    run.checkpoint = lambda which: run.checkpoints / "step-1"
    check_refused(attack, setting, lambda: visualize(run, attack.folder / "videos"))


def test_load_policy_checks_the_network(attack):
    run = prepare(attack, module_in_run, "network")
    record = {"spaces": spaces_to_json(spaces.Box(-1, 1, (2,)), spaces.Discrete(2))}
    write(run.checkpoints, 1, {}, best=False, record=record)
    check_refused(attack, "network", lambda: load_policy(run))


def test_the_command_in_the_folder_of_the_run_refuses(attack):
    prepare(attack, current_directory_is_the_run)
    process = subprocess.run(
        [sys.executable, "-m", "agents.scripts.train", "--logdir=..", f"--timestamp={RUN[:15]}"],
        cwd=attack.run,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2 and "not imported from the current folder" in process.stderr
    assert len(process.stderr.splitlines()) <= 3
    assert not attack.marker.exists()


@pytest.mark.parametrize(
    "env, env_kwargs",
    [
        ("subprocess:check_output", {"args": "touch MARKER", "shell": True}),
        ("os:system", {"command": "touch MARKER"}),
        ("builtins:open", {"file": "MARKER", "mode": "w"}),
        ("pathlib:Path", {}),
        ("functools:partial", {}),
    ],
)
def test_functions_that_make_no_environments_are_not_called(attack, env, env_kwargs):
    kwargs = {
        name: value.replace("MARKER", str(attack.marker)) if isinstance(value, str) else value
        for name, value in env_kwargs.items()
    }
    run = RunDirectory(attack.run)
    run.prepare(load_config("default", env=env, env_kwargs=kwargs, num_envs=1, eval_episodes=1))
    command = [f"--logdir={attack.logdir}", f"--timestamp={run.timestamp}", "--dry-run"]
    for start in (lambda: next(train(run.load_config(), run)), lambda: train_script.main(command)):
        with pytest.raises(UsageError, match="only the run names this function"):
            start()
        assert not attack.marker.exists()


# What is not refused.


def lazy(attack, name):
    """A module that imports Gymnasium when it makes an environment."""
    attack.write(
        attack.project / f"{name}.py",
        "def make():\n    import gymnasium\n    return gymnasium.make('CartPole-v1')\n",
    )
    return name


def test_a_function_that_makes_environments_is_known_by_its_module_or_by_the_users_word(attack):
    attack.search(attack.project)
    names = [f"{attack.name}_{end}" for end in ("eager", "known", "unknown")]
    eager, known, unknown = (f"{lazy(attack, name)}:make" for name in names)
    path = attack.project / f"{names[0]}.py"
    path.write_text(f"import gymnasium\n{path.read_text()}")
    find_spec(known)  # As in `agents check my_module:make`.
    with refusing_modules_in(attack.run, attack.logdir):
        find_spec(eager)
        find_spec(known)
        with pytest.raises(UsageError, match=f"agents check {unknown}"):
            find_spec(unknown)


def test_modules_that_the_user_has_named_in_this_folder_are_imported(attack, monkeypatch):
    """As by `agents train --network=my_module:f`, and later `agents visualize`."""
    name = module_beside_the_logdir(attack)
    current_folder.begin_command()
    load_function(f"{name}:evil", "network")
    for folder, is_refused in ((attack.folder, False), (attack.project, True)):
        attack.write(folder / f"{name}.py")
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delenv(current_folder.NAMED, raising=False)  # As in another process.
        monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(attack.folder)])
        monkeypatch.chdir(folder)
        current_folder.begin_command()
        attack.marker.unlink(missing_ok=True)
        with contextlib.ExitStack() as stack:
            if is_refused:
                stack.enter_context(pytest.raises(UsageError, match="current folder"))
            with refusing_modules_in(attack.run, attack.logdir):
                load_function(f"{name}:evil", "network")
        assert attack.marker.exists() != is_refused


def test_processes_of_the_command_know_what_the_user_has_named_without_a_home(attack, monkeypatch):
    name = module_beside_the_logdir(attack)
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    monkeypatch.delenv(current_folder.NAMED, raising=False)
    current_folder.remember(name)
    code = f"from agents.settings.current_folder import is_named; print(is_named({name!r}))"
    printed = subprocess.check_output(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True
    )
    assert printed == "True\n"


def test_a_new_run_may_name_modules_in_its_logdir(attack):
    name = attack.name
    attack.write(attack.logdir / f"{name}.py")
    attack.search(attack.logdir)
    config = load_config("default", env_wrappers=(f"{name}:evil",), env="Absent-v0")
    with pytest.raises(UsageError, match="Absent-v0"):
        next(train(config, RunDirectory(attack.run)))
    assert attack.marker.exists()


def test_modules_beside_the_logdir_are_not_refused(attack):
    attack.write(attack.project / f"{attack.name}.py", "def evil(env): return env")
    attack.search(attack.project)
    with refusing_modules_in(attack.run, attack.logdir):
        importlib.import_module(attack.name)


def test_installed_packages_are_not_refused_where_the_logdir_holds_them(monkeypatch):
    monkeypatch.delitem(sys.modules, "xmlrpc", raising=False)
    monkeypatch.delitem(sys.modules, "agents.seeds", raising=False)
    with refusing_modules_in(Path(os.__file__).parents[2], ROOT):
        importlib.import_module("xmlrpc")
        importlib.import_module("agents.seeds")


def test_imports_are_as_before_afterwards():
    before = list(sys.meta_path)
    with pytest.raises(KeyError), refusing_modules_in(Path("logs")):
        raise KeyError
    assert sys.meta_path == before
