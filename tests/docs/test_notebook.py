"""The notebook runs from top to bottom."""

import ast

import nbformat
import pytest

from tests.docs.notebook import QUICKSTART, execute, is_stored, outputs, shown

SHORT = "STEPS, EVAL_INTERVAL = 2_000, 2_000"


def test_cells_are_python_and_outputs_are_small():
    notebook = nbformat.read(QUICKSTART, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)
            assert cell.execution_count
    assert all(map(is_stored, outputs(notebook)))
    assert "image/png" in shown(notebook)[1]
    assert QUICKSTART.stat().st_size < 500_000


def test_short_run(tmp_path):
    notebook = execute(tmp_path, SHORT)
    text, kinds = shown(notebook)
    assert {"image/png", "text/html"} <= kinds  # The curves and the video.
    assert "best so far, at step 2,000" in text
    assert list(tmp_path.glob("logdir/*-Pendulum-v1/metrics.jsonl"))
    assert list(tmp_path.glob("videos/episode-*.mp4"))


@pytest.mark.slow
def test_whole_run(tmp_path):
    text, _ = shown(execute(tmp_path))
    returned = next(line for line in text.splitlines() if line.startswith("return of the episode"))
    assert float(returned.rpartition(" ")[2]) > -500
