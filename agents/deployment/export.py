"""Exporting a run's policy to formats that other programs load, without this library."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from agents.deployment.export_target import check_target
from agents.deployment.policy_function import PolicyFunction
from agents.deployment.scores import logged_episodes, logged_scores
from agents.deployment.space_json import space_to_json
from agents.deployment.trained_policy import restore_policy, run_spaces
from agents.errors import UsageError
from agents.runs.run_directory import RunDirectory
from agents.seeds import Seeds
from agents.tensorflow_setup import quiet_tensorflow
from agents.types import PlainData, Space

METADATA = "policy.json"
ONNX_OPSET = 17  # Of 2022; what loads it is old enough to be installed everywhere.


def export_policy(
    run: RunDirectory | str | Path,
    outdir: str | Path,
    format: str = "savedmodel",
    checkpoint: str = "last",
) -> dict[str, PlainData]:
    """Writes a run's policy, with normalizer, bounds and masks inside, for batches of any size.

    Actions are the mode of the distribution. Tensors are named `observ` and `action`, with `_<key>`
    in a Dict space. Recurrent policies take `state_<i>`, zeros at the start of an episode, and
    return `next_state_<i>`. `policy.json` lists all tensors with their types, which are those of
    the spaces; TensorFlow Lite returns floating-point actions as float32.

    Args:
      run: A run with checkpoints, or its folder.
      outdir: Folder to create: a SavedModel, or `policy.tflite`, or `policy.onnx`, with
        `policy.json`.
      format: `savedmodel`, `tflite`, or `onnx`, which needs the package tf2onnx.
      checkpoint: `last`, `best`, `averaged`, or the step of one that was kept.

    Returns:
      The content of `policy.json`.

    Raises:
      UsageError: There is no such run, checkpoint or format, a package is missing, the format has
        no operation that the policy needs, or `outdir` is not empty or can't be written to.
    """
    run = RunDirectory.of(run)
    outdir = check_target(outdir, format)
    path = run.checkpoint(checkpoint)
    observation_space, action_space = run_spaces(run)
    computed_space = with_float32(action_space) if format == "tflite" else action_space
    policy = restore_policy(run, observation_space, computed_space, checkpoint)
    if format == "tflite":  # Has no arithmetic of float64.
        policy.inputs.round_to_float32()
    function = PolicyFunction(policy, computed_space)
    acting_spaces = policy.inputs.acting_space, action_space
    step = int(path.name.rpartition("-")[2])
    metadata = _metadata(run, step, checkpoint, format, function, *acting_spaces)
    outdir.parent.mkdir(parents=True, exist_ok=True)
    # Complete or not there at all.
    with tempfile.TemporaryDirectory(dir=outdir.parent, prefix=f"{outdir.name}.") as folder:
        place = Path(folder) / "policy"
        place.mkdir()
        with _quiet():
            FORMATS[format](function, place)
        (place / METADATA).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
        _move(place, outdir)
    return metadata


def _move(place: Path, outdir: Path) -> None:
    """Moves a folder to a new path, or its content into an existing folder."""
    try:
        if not outdir.exists():
            os.replace(place, outdir)
            return
        # It may be a link, the current folder, or another disk. The metadata comes last.
        for path in sorted(place.iterdir(), key=lambda path: path.name == METADATA):
            shutil.move(path, outdir / path.name)
    except OSError as error:
        raise UsageError(f"--outdir={outdir}: {error.strerror}") from None


def _metadata(
    run: RunDirectory,
    step: int,
    checkpoint: str,
    format: str,
    function: PolicyFunction,
    *spaces: Space,
) -> dict[str, PlainData]:
    config = run.load_config()
    observation_space, action_space = map(space_to_json, spaces)
    states = [(spec.name, tuple(spec.shape[1:])) for spec in function.state_specs]
    scores = logged_scores(run, step, checkpoint)
    seeds = Seeds(config.seed).many("evaluation", logged_episodes(run, step))
    return {
        "format": format,
        "run": run.path.name,
        "env": config.env,
        "checkpoint_step": step,
        "inputs": [
            *(_tensor(name, leaf.shape, leaf.dtype) for name, leaf in function.observ_leaves),
            *(_tensor(name, shape, "float32") for name, shape in states),
        ],
        "outputs": [
            *(_tensor(name, leaf.shape, leaf.dtype) for name, leaf in function.action_leaves),
            *(_tensor(f"next_{name}", shape, "float32") for name, shape in states),
        ],
        "observation_space": observation_space,
        "action_space": action_space,
        "evaluation": scores and {**scores, "seeds": seeds.tolist()},
    }


def _tensor(name: str, shape: tuple[int, ...], dtype: object) -> dict[str, PlainData]:
    return {"name": name, "shape": [None, *shape], "dtype": str(dtype)}


def _save_model(function: PolicyFunction, folder: Path) -> None:
    tf.saved_model.save(function, str(folder), signatures={"serving_default": function.call})


def _save_tflite(function: PolicyFunction, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as saved:
        _save_model(function, Path(saved))
        converter = tf.lite.TFLiteConverter.from_saved_model(saved)
        with _refusing("tflite"):
            model = converter.convert()
    (folder / "policy.tflite").write_bytes(model)


def with_float32(space: Space) -> Space:
    """Returns a space whose Boxes of other floating-point types have float32 instead."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict([(key, with_float32(child)) for key, child in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([with_float32(child) for child in space.spaces])
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        return space
    limits = np.finfo(np.float32)
    low, high = (
        np.where(np.isinf(bound), bound, np.clip(bound, limits.min, limits.max))
        for bound in (space.low.astype(np.float64), space.high.astype(np.float64))
    )
    return spaces.Box(low.astype(np.float32), high.astype(np.float32), space.shape, np.float32)


def _save_onnx(function: PolicyFunction, folder: Path) -> None:
    import onnx
    import tf2onnx

    with _refusing("onnx"):
        model, _ = tf2onnx.convert.from_function(
            function.call,
            input_signature=function.call.input_signature,
            opset=ONNX_OPSET,
            custom_op_handlers={"Erfc": (_convert_erfc, [])},
        )
        names = {spec.name for spec in function.call.input_signature}
        unknown = [one.name for one in model.graph.input if one.name not in names]
        if unknown:  # The converter takes large constants for inputs.
            raise ValueError(f"a layer holds a tensor that is no weight, see {unknown[0]}")
        # The converter takes bfloat16 for another type, which no runtime loads.
        onnx.checker.check_model(model, full_check=True)
    (folder / "policy.onnx").write_bytes(model.SerializeToString())


def _convert_erfc(graph: Any, node: Any, name: str, _: object) -> None:
    """Replaces 1 - erf(x), of which gelu consists and which the converter does not know."""
    (result,), shapes, dtypes = node.output, node.output_shapes, node.output_dtypes
    graph.remove_node(name)
    erf = graph.make_node("Erf", node.input)
    one = graph.make_const(f"{name}_one", np.ones([], np.float32))
    pair = [one.output[0], erf.output[0]]
    graph.make_node("Sub", pair, outputs=[result], name=name, shapes=shapes, dtypes=dtypes)


@contextlib.contextmanager
def _refusing(format: str) -> Iterator[None]:
    """Raises UsageError for what a converter raises, usually an operation that its format lacks."""
    try:
        yield
    except Exception as error:
        operation = re.search(r"Details:\s*(.+?) : {", str(error))  # Of TensorFlow Lite.
        reason = operation[1] if operation else f"{type(error).__name__}: {error}".splitlines()[0]
        raise UsageError(
            f"--format={format}: can't convert this policy: {reason[:200]}\n"
            "use --format=savedmodel: it has all operations"
        ) from error


FORMATS: dict[str, Callable[[PolicyFunction, Path], None]] = {
    "savedmodel": _save_model,
    "tflite": _save_tflite,
    "onnx": _save_onnx,
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drops progress messages of the converters; warnings of other kinds stay."""
    loggers = [logging.getLogger(name) for name in ("absl", "tensorflow", "tf2onnx")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with quiet_tensorflow(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
