import ast
import subprocess
import sys

from scripts.mutation import command
from scripts.mutation.mutants import find_mutants

SOURCE = '''"""A module; "1 + 1" here is a text."""

LIMIT = 3


def clip(value: int = 2, name: str = "é") -> int:
    """Returns value + 1."""
    if value > LIMIT and not value == 4:
        print(*zip("a", "b", strict=True))
        value -= 1
    if name:
        raise ValueError(f"{value + 1}")
    return value * 2 if True else -value
'''


def test_every_part_of_a_function_is_changed_once():
    mutants = find_mutants(SOURCE)
    changes = {(mutant.line, mutant.before, mutant.after) for mutant in mutants}
    assert changes == {
        (8, "value > LIMIT", "(value >= LIMIT)"),
        (8, "value > LIMIT and not value == 4", "(value > LIMIT or not value == 4)"),
        (8, "value > LIMIT and not value == 4", "(not (value > LIMIT and (not value == 4)))"),
        (8, "not value == 4", "(value == 4)"),
        (8, "value == 4", "(value != 4)"),
        (8, "4", "(5)"),
        (9, 'print(*zip("a", "b", strict=True))', "pass"),
        (10, "value -= 1", "pass"),
        (10, "1", "(2)"),
        (11, "name", "(not (name))"),
        (13, "value * 2 if True else -value", "(-value if True else value * 2)"),
        (13, "value * 2", "(value / 2)"),
        (13, "2", "(3)"),
        (13, "True", "(False)"),
        (13, "-value", "(value)"),
    }
    assert len(mutants) == len(changes)
    for mutant in mutants:
        ast.parse(mutant.source)
        assert mutant.source != SOURCE


def test_survivors_are_those_that_no_test_notices(tmp_path):
    (tmp_path / "agents" / "room").mkdir(parents=True)
    (tmp_path / "agents" / "room" / "double.py").write_text(
        "def double(value):\n    print(value)\n    return value * 2\n"
    )
    (tmp_path / "tests" / "room").mkdir(parents=True)
    (tmp_path / "tests" / "room" / "test_double.py").write_text(
        "from agents.room.double import double\ndef test_double():\n    assert double(3) == 6\n"
    )
    (tmp_path / "tests" / "room" / "test_printing.py").write_text(
        "from agents.room.double import double\n"
        "def test_printing(capsys):\n    double(1)\n    assert capsys.readouterr().out == '1\\n'\n"
    )
    found = tmp_path / "found.jsonl"
    result = run_command(tmp_path, "agents/room", "--own", f"--survivors={found}")
    assert result.returncode == 1
    assert "survives: agents/room/double.py:2: print(value)  ->  pass" in result.stdout
    assert "1 of 3 survive" in result.stdout
    assert "print(value)" in found.read_text()
    result = run_command(tmp_path, "agents/room")
    assert result.returncode == 0
    assert "0 of 3 survive" in result.stdout


def run_command(root, *arguments):
    """Runs the command on another tree, in a process of its own, which it forks."""
    code = (
        "import sys, pathlib\n"
        "from scripts.mutation import command\n"
        "command.ROOT = pathlib.Path(sys.argv.pop(1))\n"
        "command.COPIED = ('agents', 'tests')\n"
        "sys.exit(command.main())"
    )
    return subprocess.run(
        [sys.executable, "-c", code, root, *arguments],
        cwd=command.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
