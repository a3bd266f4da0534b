import subprocess
import sys
from pathlib import Path

from tests.mutation import command
from tests.mutation.mutants import find_mutants

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
        compile(mutant.source, "mutant", "exec")
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


def test_tests_that_fail_without_a_mutant_end_the_run(tmp_path):
    (tmp_path / "agents" / "room").mkdir(parents=True)
    (tmp_path / "agents" / "room" / "one.py").write_text("def one():\n    return 1\n")
    (tmp_path / "tests" / "room").mkdir(parents=True)
    (tmp_path / "tests" / "room" / "test_one.py").write_text("def test_one():\n    assert False\n")
    result = run_command(tmp_path, "agents/room")
    assert result.returncode == 1
    assert "error: tests/room/test_one.py fails without any change" in result.stderr


def run_command(root, *arguments):
    """Runs the command on another tree, in a process of its own, which it forks."""
    code = (
        "import sys, pathlib\n"
        "from tests.mutation import command\n"
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


def test_the_library_has_mutants_in_all_rooms_that_are_tested_by_default():
    for place in (*command.ROOMS, *command.FILES):
        files = command.source_files(command.ROOT / place)
        assert files and all(command.targets(path) for path in files)


def test_the_command_explains_itself():
    script = Path(command.ROOT) / "scripts" / "mutants.py"
    result = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=True
    )
    assert "--sample" in result.stdout
