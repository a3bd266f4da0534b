"""Completion, by the shells themselves; zsh and fish where they are installed."""

import shutil
import subprocess

import pytest

from agents.command_line.completion import completion_script, options_of
from agents.scripts.main import COMMANDS
from agents.scripts.train import TrainOptions
from agents.scripts.visualize import VisualizeOptions
from agents.settings.config import Config

OPTIONS = {"train": options_of(TrainOptions, Config), "visualize": options_of(VisualizeOptions)}

# A line that was typed, and what it may be completed to; in zsh, the only completion.
LINES = [
    ("agents tr", {"train"}),
    ("agents train --conf", {"--config="}),
    ("agents train --config=pend", {"pendulum", "pendulum_no_velocity"}),
    ("agents train --config pong", {"pong"}),
    ("agents train --seed=1 --env-backend=", {"process", "inline", "envpool", "tf"}),
    ("agents train --no", {"--noise-correlation=", "--normalize-advantages=", "--normalize-observ=",
                           "--normalize-reward=", "--normalize-value"}),
    ("agents train --normalize-observ=", {"true", "false"}),
    ("agents train --dry", {"--dry-run"}),
    ("agents visualize --rollout", set()),
    ("agents visualize --checkpoint=b", {"best"}),
    ("agents visualize --logdir=logs/2026", {"logs/20260131-run/"}),
]  # fmt: skip

ZSH = """
zmodload zsh/zpty
zpty shell "zsh -f -i"
zpty -w shell "PS1=; unsetopt menucomplete automenu; source completion.zsh; echo RE''ADY"
zpty -r shell output '*READY*'
while read -r line; do
  zpty -w -n shell "$line"$'\\t'; sleep 0.5
  zpty -w -n shell $'\\x01echo GO""T \\x05 EN""D\\n'
  zpty -r shell output '*GOT*END*'
  print -r -- "${${output##*GOT }%% END*}"
done
"""


def completed(shell, script, folder):
    """Returns the completions of all lines."""
    (folder / f"completion.{shell}").write_text(script)
    (folder / "logs" / "20260131-run").mkdir(parents=True)
    code = f"source completion.{shell}\n"
    for line, _ in LINES:
        if shell == "bash":
            code += f"COMP_LINE='{line}' COMP_POINT={len(line)}\n_agents 2>/dev/null\n"
            code += 'echo "${COMPREPLY[*]}"\n'
        else:
            code += f"echo (complete -C '{line}' | string replace -r '\\t.*' '')\n"
    process = subprocess.run(
        [shell, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return [set(line.split()) for line in process.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_commands_options_and_values_are_completed(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    found = completed(shell, completion_script(shell, COMMANDS, OPTIONS), tmp_path)
    for (line, expected), words in zip(LINES, found, strict=True):
        if shell == "fish":  # It adds = itself, and repeats the option.
            words = {word.rpartition("=")[2] if "=" in line else word for word in words}
            expected = {word.removesuffix("=") for word in expected}
        assert words == expected, line


def test_zsh_takes_the_same_script(tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("needs zsh")
    (tmp_path / "completion.zsh").write_text(completion_script("zsh", COMMANDS, OPTIONS))
    lines = {
        "agents tra": "agents train",
        "agents train --env-back": "agents train --env-backend=",
        "agents train --env-backend=inl": "agents train --env-backend=inline",
    }
    process = subprocess.run(
        ["zsh", "-f", "-c", ZSH],
        input="".join(f"{line}\n" for line in lines),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert [line.strip() for line in process.stdout.splitlines()] == list(lines.values())


def test_every_setting_is_an_option():
    assert len(OPTIONS["train"]) == 2 + len(TrainOptions.model_fields) + len(Config.model_fields)
    assert OPTIONS["train"]["--optimizer"] == (
        "Optimizer: Adam, or SGD with momentum.",
        ("adam", "sgd"),
    )
