"""Exports a run's policy: `python -m agents.scripts.export --logdir=RUN --outdir=policy`."""

from __future__ import annotations

import sys

from pydantic import BaseModel, ConfigDict, Field

from agents import stop_signals
from agents.deployment.export_target import Format, check_target
from agents.keras_settings import check_keras
from agents.runs.run_directory import RunDirectory
from agents.settings.parser import parse_command
from agents.settings.reports import run, say
from agents.tensorflow_setup import start_tensorflow

EXAMPLES = """\
examples:
  agents export --logdir=logdir/20260131T120000-pendulum --outdir=policy
  agents export --logdir=logdir/20260131T120000-ant --outdir=policy --format=onnx --checkpoint=best

Guide: docs/guides/deployment.md"""


class ExportOptions(BaseModel):
    """Writes a run's policy in a format that other programs load, without this library."""

    model_config = ConfigDict(extra="forbid")

    logdir: str = Field(
        min_length=1,
        description="Folder of the run, <logdir>/<time>-<config>. <logdir>/latest is the newest "
        "run.",
    )
    outdir: str = Field(min_length=1, description="Folder for the policy. It must be new or empty.")
    format: Format = Field(
        "savedmodel", description="Format: TensorFlow's SavedModel, TensorFlow Lite, or ONNX."
    )
    checkpoint: str = Field(
        "last",
        min_length=1,
        description="Checkpoint to load: last (the default), best, averaged, or a step.",
    )


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options, _ = parse_command(ExportOptions, arguments, program="agents export", examples=EXAMPLES)
    check_keras()
    run = RunDirectory.of(options.logdir)
    # Before TensorFlow is imported.
    run.checkpoint(options.checkpoint)
    check_target(options.outdir, options.format)
    say(f"Exporting the policy of {run.path}", file=sys.stderr)
    with stop_signals.handling("the export stops"), stop_signals.interruptible():
        start_tensorflow(threads=0)
        from agents.deployment.export import export_policy

        metadata = export_policy(run, options.outdir, options.format, options.checkpoint)
    inputs, outputs = (
        ", ".join(tensor["name"] for tensor in metadata[key]) for key in ("inputs", "outputs")
    )
    say(f"Wrote the policy of step {metadata['checkpoint_step']:,} to {options.outdir}")
    say(f"It takes {inputs} and returns {outputs}; policy.json has their shapes")


if __name__ == "__main__":
    run(main)
