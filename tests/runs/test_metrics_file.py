import json
import os

import hypothesis
import pytest
from hypothesis import strategies

from agents.runs.metrics_file import read_metrics, remove_lines_after

DAMAGES = {
    "null": b"null\n",
    "list": b"[1, 2]\n",
    "no step": b'{"wall_time": 1.0}\n',
    "step of text": b'{"step": "150"}\n',
    "step that is true": b'{"step": true}\n',
    "zeros": bytes(1000) + b"\n",
    "not UTF-8": b'{"step": 150, "\xff": 1}\n',
    "nested": b'{"step": 150, "a": ' + b"[" * 100_000 + b"\n",
    "long": b"x" * 600_000 + b"\n",
    "digits": b'{"step": ' + b"1" * 5000 + b"}\n",
}


def line(step):
    return json.dumps({"step": step, "losses/policy": step / 8}).encode() + b"\n"


def steps(path):
    return [row["step"] for row in read_metrics(path)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_lines_are_skipped_and_those_after_them_read(tmp_path, damage):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(line(100) + DAMAGES[damage] + line(200))
    assert steps(path) == [100, 200]
    assert remove_lines_after(path, 150)
    assert path.read_bytes() == line(100) + DAMAGES[damage]


@hypothesis.given(
    strategies.lists(strategies.integers(0, 50), max_size=8).map(sorted),
    strategies.integers(0, 60),
    strategies.integers(0, 20),
)
@hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_the_file_is_cut_after_a_step_wherever_it_ends(tmp_path, written, step, num_bytes):
    path = tmp_path / "metrics.jsonl"
    whole = b"".join(map(line, written))
    path.write_bytes(whole[: max(len(whole) - num_bytes, 0)])
    inode, kept = path.stat().st_ino, [found for found in steps(path) if found <= step]
    is_complete = remove_lines_after(path, step)
    assert steps(path) == kept and path.stat().st_ino == inode  # In place: the disk may be full.
    rest = path.read_bytes()
    assert whole.startswith(rest) and is_complete == (not rest or rest.endswith(b"\n"))


def test_values_are_finite_numbers(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": NaN, "b": 1e999, "c": null, "d": "x", "e": 3, "f": true}\n')
    assert read_metrics(path) == [{"step": 1, "e": 3}]


def test_a_missing_file_has_no_lines(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_metrics(path) == [] and remove_lines_after(path, 100)
    assert not os.path.exists(path)
