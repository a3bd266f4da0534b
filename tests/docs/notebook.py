"""Runs the notebook: `python -m tests.docs.notebook` writes its outputs, as people see them on the web."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "notebooks/quickstart.ipynb"
MAX_OUTPUT = 300_000  # Characters of an output that is stored.


def execute(folder):
    """Runs all cells in a folder, where runs are written.

    Raises:
      nbclient.exceptions.CellExecutionError: A cell raised.
    """
    notebook = nbformat.read(QUICKSTART, as_version=4)
    environment = {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "MPLBACKEND": "agg"}
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}
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
