"""Completion by bash; argcomplete's own tests have the other shells."""

import subprocess
import sys
from pathlib import Path

import pytest

from agents.scripts.main import dispatch

# A line that was typed, and its completions.
LINES = [
    ("agents tr", ["train "]),
    ("agents train --conf", ["--config "]),
    ("agents train --config=pend", ["pendulum", "pendulum_no_velocity"]),
    ("agents train --config pong", ["pong "]),
    ("agents train --seed=1 --env-backend=i", ["inline "]),
    ("agents train --normalize-observ=", ["true", "false"]),
    ("agents train --algorithm=p", ["ppo "]),
    ("agents visualize --rollout", []),
    ("agents visualize --logdir=logs/2026", ["logs/20260131-run/"]),
    ("agents compare logs/$", [r"logs/\$\(touch\ RAN\)/"]),
]


def test_bash_completes_commands_options_and_values(tmp_path, capsys):
    command = Path(sys.executable).with_name("agents")
    if not command.exists():
        pytest.skip("needs the installed command")
    for folder in ("20260131-run", "$(touch RAN)"):
        (tmp_path / "logs" / folder / "deep").mkdir(parents=True)
    dispatch(["completion", "bash"])
    script = capsys.readouterr().out
    for line, _ in LINES:
        script += f"COMPREPLY=(); COMP_TYPE=9 COMP_LINE='{line}' COMP_POINT={len(line)}\n"
        script += f"_python_argcomplete '{command}'\nprintf '%s\\t' \"${{COMPREPLY[@]}}\"; echo\n"
    process = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = [line.rstrip("\t").split("\t") for line in process.stdout.splitlines()]
    assert [[word for word in words if word] for words in found] == [words for _, words in LINES]
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]  # No name is a command.
