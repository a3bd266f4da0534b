import textwrap

import pytest

from agents.errors import UsageError
from agents.settings.config_file import load_config


@pytest.fixture
def refused():
    """Returns the lines of the error that `load_config` raises."""

    def load(*args, **overrides):
        with pytest.raises(UsageError) as caught:
            load_config(*args, **overrides)
        lines = str(caught.value).splitlines()
        assert 1 <= len(lines) <= 3
        return lines

    return load


@pytest.fixture
def write_file(tmp_path):
    """Writes a settings file and returns its path."""
    path = tmp_path / "mine.yaml"

    def write(text):
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write
