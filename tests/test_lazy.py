import ast
import importlib
import subprocess
import sys

import pytest

from agents import lazy

LISTS_WITHOUT_TENSORFLOW = """
import sys
import agents, agents.tools, agents.config, agents.envs
agents.tools.wrappers, agents.tools.ExternalProcess, agents.tools.BatchEnv, agents.tools.make_batch_env
agents.tools.MockEnvironment, agents.tools.AttrDict, agents.envs.make, agents.envs.register
print(sorted({name.partition(".")[0] for name in sys.modules} & {"tensorflow", "keras"}))
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose module `costly` notes that it was imported."""
    folder = tmp_path / "lazily"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from agents.lazy import lazy_names\n"
        "__getattr__ = lazy_names(__name__, {'answer': 'costly', 'costly': 'costly', 'absent': 'costly'})\n"
    )
    (folder / "costly.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("lazily")
    for name in ("lazily", "lazily.costly"):
        sys.modules.pop(name, None)


def test_imports_when_a_name_is_used_and_not_before(package):
    assert "lazily.costly" not in sys.modules
    assert package.answer == 42
    assert "lazily.costly" in sys.modules


def test_a_name_equal_to_its_module_is_the_module(package):
    assert package.costly is sys.modules["lazily.costly"]


def test_from_import(package):
    from lazily import answer

    assert answer == 42


def test_unknown_names_are_attribute_errors(package):
    with pytest.raises(AttributeError, match="module 'lazily' has no attribute 'anwser'"):
        _ = package.anwser
    assert not hasattr(package, "__path_of_nothing__")
    with pytest.raises(ImportError):
        from lazily import nothing  # noqa: F401


def test_a_name_that_its_module_lacks_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="absent"):
        _ = package.absent


def test_an_import_error_of_the_module_is_not_hidden():
    getter = lazy.lazy_names("agents", {"gone": "no_such_module"})
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        getter("gone")


def test_what_workers_and_the_command_line_import_does_not_import_tensorflow():
    answer = subprocess.run([sys.executable, "-c", LISTS_WITHOUT_TENSORFLOW], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert ast.literal_eval(answer.stdout) == []


@pytest.mark.parametrize("name", ["agents", "agents.envs", "agents.tools"])
def test_every_public_name_is_there(name):
    package = importlib.import_module(name)
    assert package.__all__
    for public in package.__all__:
        assert getattr(package, public) is not None
