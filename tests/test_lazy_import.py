import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from agents.lazy_import import lazy_names

PACKAGES = ["agents", "agents.ppo", "agents.tensor_envs", "agents.tools"]

WITHOUT_TENSORFLOW = """
import sys
import agents, agents.tools, agents.settings.config, agents.tensor_envs
agents.load_config, agents.make_batch_env, agents.BatchEnv, agents.ExternalProcess
agents.tools.wrappers, agents.tools.ExternalProcess, agents.tools.BatchEnv
agents.tools.make_batch_env, agents.tools.MockEnvironment, agents.tools.AttrDict
agents.tensor_envs.make, agents.tensor_envs.register
print(sorted({name.partition(".")[0] for name in sys.modules} & {"tensorflow", "keras"}))
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with names of the module `costly` of another package, and that module."""
    for name in ("lazily", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "lazily" / "__init__.py").write_text(
        "from agents.lazy_import import lazy_names\n"
        "HOMES = {'answer': 'home.costly', 'costly': 'home', 'absent': 'home.costly'}\n"
        "__getattr__, __dir__ = lazy_names(__name__, HOMES)\n"
    )
    (tmp_path / "lazily" / "part.py").write_text("")
    (tmp_path / "home" / "__init__.py").write_text("")
    (tmp_path / "home" / "costly.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("lazily")
    for name in ("lazily", "home", "home.costly"):
        sys.modules.pop(name, None)


def test_names_are_listed_at_once_and_imported_on_first_use(package):
    assert dir(package) == ["absent", "answer", "costly"]
    assert "home" not in sys.modules
    from lazily import answer

    assert package.answer == answer == 42
    assert package.costly is sys.modules["home.costly"]


def test_unknown_names_raise_attribute_errors(package):
    with pytest.raises(AttributeError) as caught:
        _ = package.anwser
    expected = "module 'lazily' has no attribute 'anwser'; did you mean 'answer'?"
    assert str(caught.value) == expected
    assert not hasattr(package, "__path_of_nothing__")
    with pytest.raises(ImportError):
        from lazily import nothing  # noqa: F401
    with pytest.raises(AttributeError, match="absent"):
        _ = package.absent
    getter, _ = lazy_names("agents", {"gone": "no_such_module"})
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        getter("gone")


def test_modules_of_the_package_are_imported_on_first_use(package):
    assert "lazily.part" not in sys.modules
    assert package.part is sys.modules["lazily.part"]


def test_what_workers_and_the_command_line_import_does_not_import_tensorflow():
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW], capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    assert ast.literal_eval(answer.stdout) == []


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_exists(name):
    package = importlib.import_module(name)
    assert package.__all__
    for public in package.__all__:
        assert getattr(package, public) is not None
    assert dir(package) == sorted(package.__all__)


def test_names_that_users_of_batch_ppo_know():
    assert dir(importlib.import_module("agents.tools")) == [
        "AttrDict",
        "BatchEnv",
        "ExternalProcess",
        "InGraphBatchEnv",
        "MockAlgorithm",
        "MockEnvironment",
        "make_batch_env",
        "simulate",
        "wrappers",
    ]


@pytest.mark.parametrize("name", PACKAGES)
def test_type_checkers_see_the_same_names_in_the_same_modules(name):
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__).read_text())
    [condition] = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(condition.test) == "TYPE_CHECKING"
    seen = {
        imported.asname: (statement.module, imported.name)
        for statement in condition.body
        for imported in statement.names
    }
    # "as" exports a name to users (PEP 484).
    assert seen == {public: (home, public) for public, home in package.HOMES.items()}
    assert package.__all__ == list(package.HOMES)
