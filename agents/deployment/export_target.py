"""Format and folder of an exported policy. It must not import TensorFlow."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Literal, get_args

from agents.errors import UsageError
from agents.paths import absolute_path
from agents.runs.run_directory import check_writable
from agents.settings.installation import install_command

Format = Literal["savedmodel", "tflite", "onnx"]


def check_target(outdir: str | Path, format: str) -> Path:
    """Returns the absolute path of the folder to create.

    Raises:
      UsageError: The format is unknown or needs a missing package, or `outdir` is not empty or
        can't be written to.
    """
    if format not in get_args(Format):
        raise UsageError(f"--format={format}: expected {', '.join(get_args(Format))}")
    if format == "onnx" and importlib.util.find_spec("tf2onnx") is None:
        raise UsageError(
            "--format=onnx needs the package tf2onnx, which is not installed\n"
            f"{install_command('onnx')}"
        )
    outdir = absolute_path(outdir)
    check_writable(outdir, "--outdir")
    if outdir.exists() and any(outdir.iterdir()):
        raise UsageError(f"--outdir={outdir} is not empty; name a new folder")
    return outdir
