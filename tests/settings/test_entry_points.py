import pytest

from agents.errors import UsageError
from agents.settings.entry_points import load_function


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Modules on the path whose import fails."""
    (tmp_path / "raises_an_error.py").write_text("\nraise RuntimeError('first\\nsecond')")
    (tmp_path / "needs_another.py").write_text("import no_such_thing")
    monkeypatch.syspath_prepend(tmp_path)


def test_functions_and_classes_are_loaded():
    assert load_function("os.path:join", "env_wrappers")("a", "b") == "a/b"
    assert load_function("collections:Counter", "env_wrappers")("aab")["a"] == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("join", "env_wrappers: expected a name such as my_module:my_function, got 'join'"),
        ("os.path:", "env_wrappers: expected a name such as my_module:my_function, got 'os.path:'"),
        (":join", "env_wrappers: expected a name such as my_module:my_function, got ':join'"),
        (
            "os:path:join",
            "env_wrappers: expected a name such as my_module:my_function, got 'os:path:join'",
        ),
        (
            "no_module:f",
            "env_wrappers 'no_module:f' needs the module 'no_module', which was not found\n"
            "install it, run the command in its folder, or set PYTHONPATH to it",
        ),
        (
            "os.path:jion",
            "env_wrappers 'os.path:jion': the module 'os.path' has no 'jion'; did you mean 'join'?",
        ),
        ("os.path:sep", "env_wrappers 'os.path:sep': expected a function or a class, got str"),
        (
            "needs_another:f",
            "env_wrappers 'needs_another:f': importing 'needs_another' failed: No module named",
        ),
        (
            "raises_an_error:f",
            "env_wrappers 'raises_an_error:f': importing 'raises_an_error' failed\nRuntimeError: first",
        ),
    ],
)
def test_names_that_cannot_be_loaded(broken, name, message):
    with pytest.raises(UsageError) as raised:
        load_function(name, "env_wrappers")
    assert str(raised.value).startswith(message)
    assert len(str(raised.value).splitlines()) <= 3
