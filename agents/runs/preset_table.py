"""A table of the presets: environment, extra, and what training is expected to reach."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from agents.environments.families import family_of
from agents.settings.config_file import PRESETS, load_config, preset_names
from agents.settings.installation import install_command
from agents.types import PlainData

EXPECTED = PRESETS / "expected.json"  # Written by scripts/results.py.

_HEADER = ("preset", "environment", "extra", "steps", "return", "minutes")


def preset_table() -> list[str]:
    """Returns a line per preset, by families of environments, and what the columns mean.

    Where nothing was measured there is a hyphen.
    """
    expected: dict[str, dict[str, PlainData]] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    rows = [_row(name, expected.get(name, {})) for name in preset_names()]
    rows.sort(key=lambda row: ("" if row[2] == "-" else row[2], row[0]))  # Without an extra first.
    widths = [max(map(len, column)) for column in zip(_HEADER, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if index > 2 else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (_HEADER, *rows)
    ]
    in_graph = [name for name, row in expected.items() if row["env_backend"] == "tf"]
    return [
        *lines,
        "",
        "return   mean of the last evaluations over seeds, after these steps",
        "minutes  of one run on one core, with inline environments; with --env-backend=tf for",
        f"         {', '.join(in_graph)}",
        "The presets batch_ppo, cleanrl_*, sb3, sb3_sac and skrl have the defaults of these libraries.",
        f"To install an extra: {install_command('mujoco')}",
    ]


def describe_default(env: str) -> str:
    """Returns a line on whose settings are taken without a preset, and on presets for `env`."""
    ids = re.compile(rf"{re.escape(env)}(-v\d+)?")  # Without a version, an id is the newest one.
    presets = json.loads(EXPECTED.read_text())
    known = [name for name in presets if ids.fullmatch(load_config(name).env)]
    options = " or ".join(f"--config={name}" for name in known)
    others = f"for {env}, use {options}" if known else "agents train --list shows other presets"
    return f"Without --config, training uses the preset 'default'; {others}"


def _row(preset: str, expected: Mapping[str, PlainData]) -> tuple[str, ...]:
    """Returns the cells of a preset, in the order of the header."""
    config = load_config(preset)
    family = family_of(config.env)
    numbers = [(expected.get(key), form) for key, form in (("return", ".1f"), ("minutes", ".1f"))]
    return (
        preset,
        config.env,
        family.extra if family else "-",
        f"{expected.get('steps', config.steps):,}",
        *("-" if number is None else format(number, form) for number, form in numbers),
    )
