"""The rooms of the library: what each may import."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import agents

ROOT = Path(agents.__file__).parent
WITHOUT_TENSORFLOW = "settings", "environments", "workers", "vector", "runs"  # Rooms.
ALSO_WITHOUT_TENSORFLOW = [
    "agents.deployment.export_target",
    "agents.distributed.launcher",
    "agents.distributed.ray_cluster",
    "agents.graph.backend",
]
TABLES = {
    "agents",
    "agents.tensor_envs",
    "agents.tools",
    "agents.tools.wrappers",
}  # Names for users, from all rooms.

IMPORT_ALL = """
import importlib, importlib.util, sys

for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only packages of environments may be missing, and Ray.
        package = error.name.partition(".")[0]
        places = "agents.environments.", "agents.distributed.ray_"
        assert package != "agents" and name.startswith(places), error
        assert importlib.util.find_spec(package) is None, error
    loaded = {"tensorflow", "keras"} & set(sys.modules)
    assert not loaded, f"{name} imports {loaded}"
"""


def module_name(path):
    parts = ("agents", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Without the command `python -m agents`, which is above all rooms.
PATHS = sorted(set(ROOT.rglob("*.py")) - {ROOT / "__main__.py"})
MODULES = {module_name(path): path for path in PATHS}
PACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py"}


def listed_rooms():
    """Names of the rooms in the order of the list; "" is the root, whose modules come first."""
    lines = agents.__doc__.partition("The rooms ")[2].split("\n\n")[1].splitlines()
    first, *others = (re.match(r"  (.+?)  +\w", line)[1] for line in lines)
    assert first.startswith("errors, seeds, ")
    return ["", *others]


def room_of(module):
    return module.split(".")[1] if module.count(".") > 1 or module in PACKAGES - {"agents"} else ""


def folder_of(module):
    return module if module in PACKAGES else module.rpartition(".")[0]


@functools.cache
def imports(module):
    """Modules of this library that a module imports, also in functions and for type checkers."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.split(".")[0] == "agents"}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            if node.module.split(".")[0] == "agents":
                for name in node.names:
                    submodule = f"{node.module}.{name.name}"
                    found.add(submodule if submodule in MODULES else node.module)
    return found


def run_python(code, *arguments):
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)


def test_the_list_has_all_rooms():
    assert {room_of(name) for name in MODULES} - {"tools"} == set(listed_rooms())


def test_modules_import_from_their_room_and_those_above_it():
    rooms = listed_rooms()
    for module in MODULES.keys() - TABLES:
        for imported in imports(module):
            assert imported in MODULES
            assert imported not in TABLES, f"{module} imports a table of names: {imported}"
            assert rooms.index(room_of(imported)) <= rooms.index(room_of(module)), (
                f"{module} imports {imported}, which is in a room below its own"
            )


def test_folders_do_not_import_each_other_in_cycles():
    folders = {folder_of(module): set() for module in MODULES.keys() - TABLES}
    for module in MODULES.keys() - TABLES:
        imported = {folder_of(name) for name in imports(module)}
        folders[folder_of(module)] |= imported - {folder_of(module)}
    graphlib.TopologicalSorter(folders).prepare()  # Raises CycleError.


def test_rooms_without_tensorflow():
    modules = [name for name in MODULES if room_of(name) in WITHOUT_TENSORFLOW]
    modules += ALSO_WITHOUT_TENSORFLOW
    assert len(modules) > 30
    run_python(IMPORT_ALL, *modules)


def test_worker_processes_import_neither_tensorflow_nor_pydantic():
    packages = {"tensorflow", "keras", "pydantic", "pydantic_core"}
    run_python(f"import sys, agents.workers.worker; assert not {packages} & set(sys.modules)")


def test_the_library_and_its_types_import_nothing_before_it_is_used():
    packages = {"numpy", "gymnasium", "tensorflow"}
    run_python(f"import sys, agents, agents.types; assert not {packages} & set(sys.modules)")
