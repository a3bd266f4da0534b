"""Completion, by the shells themselves; zsh and fish where they are installed."""

import shutil
import subprocess

import pytest

from agents.command_line.completion import completion_script, options_of
from agents.scripts.compare import CompareOptions
from agents.scripts.main import COMMANDS
from agents.scripts.sweep import SweepOptions
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
    ("agents train --seed=1 --env-backend=", {"process", "hybrid", "inline", "envpool", "tf"}),
    ("agents train --no", {"--noise-correlation=", "--normalize-advantages=", "--normalize-observ=",
                           "--normalize-reward=", "--normalize-value"}),
    ("agents train --normalize-observ=", {"true", "false"}),
    ("agents train --dry", {"--dry-run"}),
    ("agents visualize --rollout", set()),
    ("agents visualize --checkpoint=b", {"best"}),
    ("agents visualize --logdir=logs/2026", {"logs/20260131-run/"}),
    ("agents train --sweep=logs/2026", {"logs/20260131-run/"}),
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


def completed(shell, script, folder, lines):
    """Returns the completions of lines, each a list of words as the command would get them."""
    (folder / f"completion.{shell}").write_text(script)
    code = f"source completion.{shell}\n"
    for line in lines:
        if shell == "bash":
            code += f"COMP_LINE='{line}' COMP_POINT={len(line)}\n_agents 2>/dev/null\n"
            # As bash reads the line that it has completed.
            code += 'eval "words=(${COMPREPLY[*]})"\nprintf "%s\\t" "${words[@]}"; echo\n'
        else:
            typed = line.replace("\\", "\\\\")
            words = f"complete -C '{typed}' | string replace -r '\\t.*' ''"
            code += f"echo ({words} | string join \\t)\n"
    process = subprocess.run(
        [shell, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return [[word for word in line.split("\t") if word] for line in process.stdout.splitlines()]


def completed_by_zsh(script, folder, lines):
    """Returns lines as zsh leaves them after a tab, as commands would get them."""
    (folder / "completion.zsh").write_text(script)
    process = subprocess.run(
        ["zsh", "-f", "-c", ZSH],
        input="".join(f"{line}\n" for line in lines),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return [line.strip() for line in process.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_commands_options_and_values_are_completed(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    (tmp_path / "logs" / "20260131-run").mkdir(parents=True)
    script = completion_script(shell, COMMANDS, OPTIONS)
    found = completed(shell, script, tmp_path, [line for line, _ in LINES])
    for (line, expected), completions in zip(LINES, found, strict=True):
        words = set(completions)
        if shell == "fish":  # It adds = itself, and repeats the option.
            words = {word.rpartition("=")[2] if "=" in line else word for word in words}
            expected = {word.removesuffix("=") for word in expected}
        assert words == expected, line


def test_zsh_takes_the_same_script(tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("needs zsh")
    lines = {
        "agents tra": "agents train",
        "agents train --env-back": "agents train --env-backend=",
        "agents train --env-backend=inl": "agents train --env-backend=inline",
    }
    script = completion_script("zsh", COMMANDS, OPTIONS)
    assert completed_by_zsh(script, tmp_path, lines) == list(lines.values())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_folders_may_have_any_name(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    for name in ("my run/it's", "$(touch RAN)/deep", "[1]/deep"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    start = "agents visualize --logdir"
    lines = {
        f"{start}=logs/m": "logs/my run/",
        f"{start}=logs/my\\ ru": "logs/my run/",
        f"{start}=logs/my\\ run/": "logs/my run/it's/",
        f"{start} logs/my\\ run/": "logs/my run/it's/",
        f"{start}=logs/\\$": "logs/$(touch RAN)/",
        f"{start}=logs/\\$\\(touch\\ RAN\\)/": "logs/$(touch RAN)/deep/",
        f"{start}=logs/\\[1\\]/": "logs/[1]/deep/",
    }
    script = completion_script(shell, COMMANDS, OPTIONS)
    if shell == "zsh":
        found = completed_by_zsh(script, tmp_path, lines)
        assert [line[len(start) + 1 :] for line in found] == list(lines.values())
    else:
        found = completed(shell, script, tmp_path, [*lines, f"{start}=logs/"])
        found = [[word.removeprefix("--logdir=") for word in words] for words in found]
        assert set(found.pop()) == {"logs/my run/", "logs/$(touch RAN)/", "logs/[1]/"}
        assert found == [[folder] for folder in lines.values()]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_names_of_folders_run_no_commands(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    (tmp_path / "logs" / "$(touch RAN)").mkdir(parents=True)
    script = completion_script(shell, COMMANDS, OPTIONS)
    completed(shell, script, tmp_path, ["agents visualize --logdir=logs/"])
    assert {path.name for path in tmp_path.iterdir()} == {"logs", f"completion.{shell}"}


def test_fish_completes_files_where_commands_take_them(tmp_path):
    if not shutil.which("fish"):
        pytest.skip("needs fish")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine.yaml").touch()
    options = {
        "train": options_of(TrainOptions, Config),
        "sweep": options_of(SweepOptions, Config),
        "compare": options_of(CompareOptions),
    }
    lines = {
        "agents mine": set(),
        "agents compare mi": {"mine/", "mine.yaml"},
        "agents train --config=mi": {"mine/", "mine.yaml", "minigrid_empty"},
        "agents train --config mi": {"mine/", "mine.yaml", "minigrid_empty"},
        "agents sweep --space=mi": {"mine/", "mine.yaml"},
        "agents train --sweep=mi": {"mine/"},
        "agents train --name=mi": set(),
        "agents train --optimizer=mi": set(),
    }
    found = completed("fish", completion_script("fish", COMMANDS, options), tmp_path, lines)
    for (line, expected), words in zip(lines.items(), found, strict=True):
        assert {word.rpartition("=")[2] for word in words} == expected, line


def test_every_setting_is_an_option():
    assert len(OPTIONS["train"]) == 2 + len(TrainOptions.model_fields) + len(Config.model_fields)
    assert OPTIONS["train"]["--optimizer"] == (
        "Optimizer: Adam as in Keras or as in PyTorch, or SGD with momentum.",
        ("adam", "torch_adam", "sgd"),
    )
