"""The guide to faults lists what may change when a run is resumed."""

import re
from pathlib import Path

from agents.settings.resumption import CHANGEABLE

PAGE = Path(__file__).parents[2] / "docs/guides/faults.md"


def test_settings_that_may_change_are_listed():
    section = PAGE.read_text().partition("### What may change on resuming\n")[2]
    listed = section.partition("Everything else")[0].partition("; and")[0]
    assert set(re.findall("`([a-z_]+)`", listed)) == CHANGEABLE
