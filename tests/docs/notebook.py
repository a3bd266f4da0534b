"""Runs the notebook: `python -m tests.docs.notebook` writes its outputs, as people see them on the web.

The cell with the tag `parameters` has what a short run replaces.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "notebooks/quickstart.ipynb"
MAX_OUTPUT = 300_000  # Characters of an output that is stored.


def execute(folder, parameters="", timeout=600):
    """Runs all cells in a folder.

    Args:
      folder: Where the kernel runs, and runs are written.
      parameters: A cell after the one with the tag `parameters`.
      timeout: Seconds that a cell may take.

    Raises:
      nbclient.exceptions.CellExecutionError: A cell raised.
    """
    notebook = nbformat.read(QUICKSTART, as_version=4)
    index = [cell.metadata.get("tags") == ["parameters"] for cell in notebook.cells].index(True)
    if parameters:
        notebook.cells.insert(index + 1, nbformat.v4.new_code_cell(parameters))
    environment = {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "MPLBACKEND": "agg"}
    client = NotebookClient(
        notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    return client.execute(env={**os.environ, **environment})


def outputs(notebook):
    """The outputs of all cells."""
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def shown(notebook):
    """What the outputs print, and the types of what they display."""
    text = "".join(output.get("text", "") for output in outputs(notebook))
    return text, {kind for output in outputs(notebook) for kind in output.get("data", {})}


def as_stored(notebook):
    """Returns the notebook with outputs that a code host shows, and no trace of this machine."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if is_stored(output)]
    return notebook


def is_stored(output):
    """Whether an output is small, and no progress of the training, which has paths and speeds."""
    return output.get("name") != "stderr" and len(str(output)) <= MAX_OUTPUT


def main():
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(as_stored(execute(folder)), QUICKSTART)


if __name__ == "__main__":
    main()
