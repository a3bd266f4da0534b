"""Scripts with which shells complete the command `agents`.

They hold commands, options and values as text, so that completing takes no time and no Python.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agents.command_line.spelling import option_name
from agents.settings.config_file import preset_names
from agents.settings.consistency import ALGORITHMS, NETWORKS

# What completes the value of an option: words, or folders.
FOLDERS: Literal["folders"] = "folders"
Values = tuple[str, ...] | Literal["folders"]

Options = dict[str, tuple[str, Values]]  # Description and values, by option.

_VALUES: dict[str, Values] = {
    "logdir": FOLDERS,
    "outdir": FOLDERS,
    "sweep": FOLDERS,
    "algorithm": tuple(ALGORITHMS),
    "network": NETWORKS,
    "checkpoint": ("averaged", "best", "last"),
}
# Options whose values may be paths of files, too. bash completes files wherever it knows no words.
_FILES = ("--config", "--space")

_BASH = """\
# Completion of the command `agents` for bash; zsh takes it by bashcompinit.
_agents_values() {{
  case "$1" in
{cases}
  esac
}}

_agents() {{
  local line="${{COMP_LINE:0:$COMP_POINT}}" before current command value option prefix="" values
  local space=$'\\1' folder
  line="${{line//\\\\ /$space}}"  # A space after a backslash is part of a word.
  current="${{line##* }}" before="${{line% *}}"
  COMPREPLY=()
  if [[ "$before" != *" "* ]]; then
    COMPREPLY=($(compgen -W "{commands}" -- "$current"))
    return
  fi
  command="${{before#* }}" command="${{command%% *}}"
  case "$current" in
    --*=*) option="${{current%%=*}}" value="${{current#*=}}" ;;
    *) option="${{before##* }}" value="$current" ;;
  esac
  # Where = separates words, the shell replaces what follows it.
  [[ "$current" == --*=* && "$COMP_WORDBREAKS" != *=* ]] && prefix="$option="
  values="$(_agents_values "$command $option")"
  if [[ "$values" == folders ]]; then
    # Names of folders may have anything in them: `compgen -W` would expand it, and split at spaces.
    IFS= read value <<< "${{value//$space/ }}"  # Without -r, it takes backslashes off.
    for folder in "$value"*/; do
      [[ -d "$folder" ]] || continue
      printf -v folder %q "$folder"
      COMPREPLY+=("$prefix$folder")
    done
  elif [[ -n "$values" ]]; then
    COMPREPLY=($(compgen -P "$prefix" -W "$values" -- "$value"))
  else
    COMPREPLY=($(compgen -W "$(_agents_values "$command")" -- "$current"))
  fi
  if [[ "${{COMPREPLY[*]}}" == *[=/] ]] && type compopt >/dev/null 2>&1; then
    compopt -o nospace
  fi
}}
"""
_SHELLS = {
    "bash": "complete -o default -F _agents agents\n",
    "zsh": "autoload -U +X compinit && compinit -u\nautoload -U +X bashcompinit && bashcompinit\n"
    "complete -o nospace -F _agents agents\n",
}
SHELLS = (*_SHELLS, "fish")


def completion_script(
    shell: str, commands: Mapping[str, str], options: Mapping[str, Options]
) -> str:
    """Returns a script that a shell reads, at its start or where it looks for completions.

    Args:
      shell: One of `SHELLS`.
      commands: Descriptions of commands by name.
      options: Options of each command, see `options_of`.
    """
    if shell == "fish":
        return "\n".join(_fish_lines(commands, options)) + "\n"
    cases = []
    for command, each in options.items():
        names = (f"{name}{'=' if values != () else ''}" for name, (_, values) in each.items())
        cases.append(f'    "{command}") echo "{" ".join(names)}" ;;')
        for name, (_, values) in each.items():
            words = values if isinstance(values, str) else " ".join(values)
            if words:
                cases.append(f'    "{command} {name}") echo "{words}" ;;')
    names_of_commands = " ".join([*commands, "--help", "--version"])
    return _BASH.format(cases="\n".join(cases), commands=names_of_commands) + _SHELLS[shell]


def options_of(*models: type[BaseModel]) -> Options:
    """Returns the options that are the fields of models, with help and version.

    An option that takes no value has none; one that takes anything has an empty word.
    """
    options: Options = {"--help": ("Prints help.", ()), "--version": ("Prints versions.", ())}
    for model in models:
        for name, field in model.model_fields.items():
            if not field.title:  # It has no option; shells complete paths themselves.
                options[option_name(name)] = (field.description or "", _values(name, field))
    return options


def _values(name: str, field: FieldInfo) -> Values:
    if name == "config":
        return tuple(preset_names())
    if name in _VALUES:
        return _VALUES[name]
    if field.annotation is bool:
        return ("true", "false") if field.default else ()  # A switch alone means true.
    if get_origin(field.annotation) is Literal:
        return tuple(map(str, get_args(field.annotation)))
    return ("",)


def _fish_lines(commands: Mapping[str, str], options: Mapping[str, Options]) -> Sequence[str]:
    first = "complete -c agents -n __fish_use_subcommand"
    # No files in place of a command; what follows one may be a path.
    lines = ["# Completion of the command `agents` for fish.", f"{first} -f"]
    lines += [f"{first} -a {name} -d {shlex.quote(text)}" for name, text in commands.items()]
    lines += [f"{first} -l {name}" for name in ("help", "version")]
    for command, each in options.items():
        for option, (description, values) in each.items():
            line = f"complete -c agents -n '__fish_seen_subcommand_from {command}'"
            line += f" -l {option.removeprefix('--')}"
            if values == FOLDERS:
                line += " -x -a '(__fish_complete_directories)'"
            elif values:
                exclusive = "-r" if option in _FILES else "-x"
                line += f" {exclusive} -a {shlex.quote(' '.join(values))}"
            lines.append(f"{line} -d {_fish_quote(textwrap.shorten(description, 70))}")
    return lines


def _fish_quote(text: str) -> str:
    """Quotes a text for fish, whose strings have backslashes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
