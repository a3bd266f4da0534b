"""What presets reach, for `train --list`: a small part of results.json that comes with the library."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from results.rows import Row

# Of the command that makes a row: they do not change the experiment, or are shown beside the score.
_SHOWN = ("--env-backend", "--steps")
_OF_THE_ROW = ("--seeds", "--at-once", "--label", "--target", "--average-decay")


def expected_results(table: Mapping[str, Row]) -> str:
    """Returns JSON with the results of presets, by their names.

    Rows with other settings than the preset's are left out: the preset alone does not reach them.

    Args:
      table: Rows by label.
    """
    results = {}
    for label, row in table.items():
        names = [option.partition("=")[0] for option in shlex.split(row["command"])[3:]]
        if label == row.get("preset") and set(names) <= {*_SHOWN, *_OF_THE_ROW}:
            results[label] = {
                "steps": row["steps"],
                "return": round(row["mean"], 1),
                "minutes": row["seconds"] and round(row["seconds"] / 60, 1),
                "env_backend": "tf" if "--env-backend=tf" in row["command"] else "inline",
            }
    lines = [f"  {json.dumps(label)}: {json.dumps(results[label])}" for label in sorted(results)]
    return "{\n" + ",\n".join(lines) + "\n}\n"
