"""The rooms of the library: what each may import."""

import ast
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agents

ROOT = Path(agents.__file__).parent
WITHOUT_TENSORFLOW = "settings", "environments", "workers", "vector", "runs"  # Rooms.
ALSO_WITHOUT_TENSORFLOW = [
    "agents.distributed.launcher",
    "agents.distributed.ray_cluster",
    "agents.graph.backend",
    "agents.graph.backend_check",
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


def imports(module):
    """Modules of this library that a module imports, in functions and for type checkers, too."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "agents")
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            if node.module.split(".")[0] == "agents":
                for name in node.names:
                    submodule = f"{node.module}.{name.name}"
                    yield submodule if submodule in MODULES else node.module


def run_python(code, *arguments):
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)


def test_the_list_has_all_rooms():
    assert {room_of(name) for name in MODULES} - {"tools"} == set(listed_rooms())


def test_imports_of_all_kinds_are_found():
    assert "agents.stop_signals" in set(imports("agents.vector.exchange"))  # from agents import ...
    assert "agents.vector.envpool_env" in set(imports("agents.graph.backend"))  # In a function.
    assert "agents.policies.policy" in set(imports("agents.graph.algorithm"))  # For type checkers.


@pytest.mark.parametrize("module", sorted(MODULES.keys() - TABLES))
def test_modules_import_from_their_room_and_those_above_it(module):
    rooms = listed_rooms()
    for imported in set(imports(module)):
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


@pytest.mark.parametrize("module", sorted(TABLES - {"agents.tools.wrappers"}))
def test_tables_hold_nothing_but_names(module):
    docstring, *statements = ast.parse(MODULES[module].read_text()).body
    assert isinstance(docstring.value, ast.Constant)
    assigned = {
        ast.unparse(target)
        for statement in statements
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    }
    assert assigned == {"HOMES", "__all__", "(__getattr__, __dir__)"}
    others = [statement for statement in statements if not isinstance(statement, ast.Assign)]
    if module == "agents":
        [check] = [statement for statement in others if isinstance(statement, ast.Expr)]
        assert ast.unparse(check) == "check_package(__file__)"
        others.remove(check)
    assert all(isinstance(statement, (ast.ImportFrom, ast.If)) for statement in others)
    [condition] = [statement for statement in others if isinstance(statement, ast.If)]
    assert ast.unparse(condition.test) == "TYPE_CHECKING" and not condition.orelse
    assert all(isinstance(statement, ast.ImportFrom) for statement in condition.body)


def test_tools_is_a_table_only():
    assert {name for name in MODULES if room_of(name) == "tools"} <= TABLES
    _, *statements = ast.parse(MODULES["agents.tools.wrappers"].read_text()).body
    assert all(isinstance(statement, ast.ImportFrom) for statement in statements)


def test_rooms_without_tensorflow():
    modules = [name for name in MODULES if room_of(name) in WITHOUT_TENSORFLOW]
    modules += ALSO_WITHOUT_TENSORFLOW
    assert len(modules) > 30
    run_python(IMPORT_ALL, *modules)


@pytest.mark.parametrize("module", ["agents.workers.worker", "agents.environments.registration"])
def test_worker_processes_import_neither_tensorflow_nor_pydantic(module):
    packages = {"tensorflow", "keras", "pydantic", "pydantic_core"}
    run_python(f"import sys, {module}; assert not {packages} & set(sys.modules)")


def test_the_library_imports_nothing_before_it_is_used():
    run_python("import sys, agents; assert not {'numpy', 'tensorflow'} & set(sys.modules)")
