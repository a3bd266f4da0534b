import copy
import functools
import pickle
import sys
import types

import pytest

from agents.settings.config_file import config_text, load_config, save_config
from agents.settings.env_function import EnvFunction


@pytest.fixture
def module(monkeypatch):
    """A module with a function and a class."""
    module = types.ModuleType("my_module")
    exec("def make_env():\n    return 3\n\nclass MyEnv:\n    pass\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "my_module", module)
    return module


def test_functions_of_modules_have_names_that_import_them(module):
    assert EnvFunction(module.make_env) == "my_module:make_env"
    assert EnvFunction(module.MyEnv) == "my_module:MyEnv"
    assert EnvFunction(module.make_env).make() == 3


def test_other_functions_have_names_in_brackets(module, monkeypatch):
    def make_env():
        return None

    assert EnvFunction(make_env) == "<make_env>"
    assert EnvFunction(lambda: None) == "<lambda>"
    assert EnvFunction(functools.partial(module.make_env)) == "<partial>"
    first = module.make_env
    monkeypatch.setattr(module, "make_env", make_env)  # As if it was defined again.
    assert EnvFunction(first) == "<make_env>"
    first.__module__ = "__main__"  # Another module in another process.
    monkeypatch.setitem(sys.modules, "__main__", types.SimpleNamespace(make_env=first))
    assert EnvFunction(first) == "<make_env>"


def test_a_name_that_gymnasium_has_is_not_the_functions(module, monkeypatch):
    gymnasium = types.SimpleNamespace(registry={"MyEnv-v3": None})
    monkeypatch.setitem(sys.modules, "gymnasium", gymnasium)
    assert EnvFunction(module.MyEnv) == "<MyEnv>"


def test_the_configuration_keeps_the_function_and_files_its_name(tmp_path):
    functions = [lambda: 1, lambda: 2]
    configs = [load_config("cartpole", env=function) for function in functions]
    assert [config.env.make() for config in configs] == [1, 2]
    changed = configs[0].model_copy(update={"seed": 1})
    for config in (copy.deepcopy(configs[0]), changed):
        assert config.env.make is functions[0]
    assert config_text(configs[0]).splitlines()[0] == "env: <lambda>"
    save_config(configs[0], tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == configs[0]


def test_is_pickled_with_its_function():
    function = EnvFunction(dict)
    assert pickle.loads(pickle.dumps(function)).make is dict
