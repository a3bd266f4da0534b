import warnings

import pytest

from agents.command_line.shown_warnings import show_warning


@pytest.mark.parametrize(
    ("category", "shown"),
    [(UserWarning, "warning: careful\n"), (RuntimeWarning, ":15: RuntimeWarning: careful\n")],
)
def test_only_users_warnings_are_shown_without_their_place(category, shown, monkeypatch, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show_warning)
        warnings.warn_explicit("careful", category, "module.py", 15)
    assert capsys.readouterr().err.endswith(shown)
