"""Shows what a run has learned: `python -m agents.scripts.visualize --logdir=logdir/<run> --outdir=videos`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from tqdm import tqdm

from agents import command_line, runs, tools
from agents.config import Config
from agents.families import check_environment
from agents.runs.run_directory import RunDirectory, check_writable
from agents.tools.errors import EnvironmentRaisedError, UsageError

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec

    from agents.runs.evaluate import Scores

EXAMPLES = """\
examples:
  python -m agents.scripts.visualize --logdir=logdir/20260131T120000-pendulum --outdir=videos
  python -m agents.scripts.visualize --logdir=logdir/20260131T120000-pendulum --outdir=videos --checkpoint=best
  MUJOCO_GL=egl python -m agents.scripts.visualize --logdir=logdir/20260131T120000-ant --outdir=videos --episodes=3"""


class VisualizeOptions(BaseModel):
    """Records what a run has learned: a video and a score of every episode, and the run's learning curves."""

    model_config = ConfigDict(extra="forbid")

    logdir: str = Field(min_length=1, description="Folder of the run, <logdir>/<time>-<config>.")
    outdir: str = Field(
        min_length=1, description="Folder for episode-*.mp4, scores.json and curves.png; earlier ones are replaced."
    )
    episodes: int | None = Field(
        None, ge=1, description="Complete episodes, recorded all at once (count; the run's eval-episodes by default)."
    )
    checkpoint: str = Field("last", min_length=1, description="One that was kept: best, last, or its step.")


def visualize(
    run: RunDirectory, outdir: str | Path, episodes: int | None = None, checkpoint: str = "last"
) -> dict[str, Any]:
    """Records complete episodes of what a run has learned, with deterministic actions.

    As many episodes as the run's evaluations have are those evaluations' episodes, and give the same scores, unless
    its environments were made of tensors: Gymnasium's of the same id are drawn, which begin other episodes. This sets
    what environments need to draw without a display, in the environment of this process (see `agents.runs.rendering`).

    Args:
      run: A run with checkpoints.
      outdir: Folder for `episode-*.mp4`, `scores.json` and `curves.png`; earlier ones are replaced.
      episodes: How many; by default the run's `eval_episodes`.
      checkpoint: `last`, `best`, or the step of one of those kept.

    Returns:
      What is written to scores.json. `logged` are the mean and standard deviation of the run's own evaluation at this
      step, None where it had none of the same episodes.

    Raises:
      UsageError: No such checkpoint, fewer than one episode, `outdir` can't be written to, or the environment can't be
        rendered.
      EnvironmentFailure: An environment, or the process it lives in, failed.
    """
    from agents.runs.rendering import render_without_display

    if episodes is not None and episodes < 1:
        raise UsageError(f"--episodes: expected an integer that is at least 1, got {episodes}")
    config = run.load_config()
    step = int(run.checkpoint(checkpoint).name.rpartition("-")[2])
    outdir = _prepare(Path(outdir))
    render_without_display()
    drawn, spec = _drawn(config)
    seeds = runs.Seeds(config.seed).many("evaluation", config.eval_episodes if episodes is None else episodes)
    paths = _video_files(outdir, len(seeds))
    with _explaining():
        scores = _record(run, drawn, spec, seeds, paths, str(step))
    report = _report(run, config, step, seeds, scores, paths)
    (outdir / "scores.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    _draw(run, config, step, outdir / "curves.png")
    return report


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options, _ = command_line.parse_command(
        VisualizeOptions, arguments, program="python -m agents.scripts.visualize", examples=EXAMPLES
    )
    run = RunDirectory.of(options.logdir)
    report = visualize(run, options.outdir, options.episodes, options.checkpoint)
    number = len(report["episodes"])
    print(f"Wrote {number} video{'s' if number > 1 else ''}, scores.json and curves.png to {options.outdir}")
    print(_summary(report))


def _prepare(outdir: Path) -> Path:
    check_writable(outdir, "--outdir")
    try:
        outdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--outdir={outdir}: {error.strerror}") from None
    return outdir


def _drawn(config: Config) -> tuple[Config, EnvSpec]:
    """What to record: environments of Gymnasium, in processes of their own, wherever those of the run lived."""
    # Never in this process: OSMesa, with which MuJoCo draws, brings an LLVM that crashes together with TensorFlow's
    # (github.com/tensorflow/tensorflow/issues/109933). Episodes are the same wherever Gymnasium's environments live.
    apart = config.model_copy(update={"env_backend": "process"})
    try:
        return apart, check_environment(apart)
    except UsageError as error:
        if config.env_backend not in ("envpool", "tf"):
            raise
        raise UsageError(
            f"{error}\na run with env_backend '{config.env_backend}' is drawn in Gymnasium's environment of the same id"
        ) from None


def _video_files(outdir: Path, number: int) -> list[Path]:
    """Where the episodes go. Those of an earlier call are removed: no folder shall hold videos of two policies."""
    for path in (*outdir.glob("episode-*.mp4"), *outdir.glob("episode-*.unfinished")):
        path.unlink()
    digits = max(2, len(str(number - 1)))
    return [outdir.absolute() / f"episode-{episode:0{digits}}.mp4" for episode in range(number)]


def _record(
    run: RunDirectory, config: Config, spec: EnvSpec, seeds: np.ndarray, paths: list[Path], checkpoint: str
) -> Scores:
    """Runs an episode in each of N environments, and records it; `seeds` are int64 [N]."""
    from agents.runs.rendering import ease_drawing
    from agents.runs.video import RecordEpisode

    def record(episode: int, env: gymnasium.Env) -> gymnasium.Env:
        ease_drawing(env)
        # Where actions are repeated, there is one frame for several of the environment's steps.
        return RecordEpisode(env, paths[episode], speed=1 / config.action_repeat)

    envs: Any = runs.make_environments(config, spec, len(seeds), record, render_mode="rgb_array")
    with contextlib.closing(envs):
        runs.start_tensorflow(config.threads)
        policy = runs.load_policy(run, envs, checkpoint)
        evaluation = runs.Evaluation(tools.InGraphBatchEnv(envs), policy, seeds)
        with _progress(len(seeds)) as progress:
            return evaluation(progress)


@contextlib.contextmanager
def _progress(episodes: int) -> Iterator[Callable[[int, int], None]]:
    """A live line in a terminal; drawing may take minutes."""
    with tqdm(total=episodes, unit=" episodes", disable=not sys.stderr.isatty(), leave=False) as bar:

        def progress(steps: int, ended: int) -> None:
            bar.set_postfix_str(f"{steps:,} steps each", refresh=False)
            bar.update(ended - bar.n)
            bar.refresh()

        yield progress


@contextlib.contextmanager
def _explaining() -> Iterator[None]:
    """Raises what a worker says about rendering as the error that it was; other processes' errors come as text."""
    try:
        yield
    except EnvironmentRaisedError as error:
        reason = error.summary.partition("RenderingError: ")[2]
        if not reason:
            raise
        raise UsageError(reason) from error


def _report(
    run: RunDirectory, config: Config, step: int, seeds: np.ndarray, scores: Scores, paths: list[Path]
) -> dict[str, Any]:
    from agents.runs.metrics import read_metrics

    names = {tag: tag.removeprefix("eval/") for tag in scores.scalars()}
    evaluations = [row for row in read_metrics(run.metrics_file) if row["step"] == step and names.keys() <= row.keys()]
    # EnvPool's environments and those made of tensors begin other episodes with the same seeds.
    comparable = evaluations and len(seeds) == config.eval_episodes and config.env_backend in ("process", "inline")
    columns = zip(seeds.tolist(), scores.returns.tolist(), scores.lengths.tolist(), paths, strict=True)
    return {
        "run": run.path.name,
        "env": config.env,
        "checkpoint_step": step,
        **{name: scores.scalars()[tag] for tag, name in names.items()},
        "logged": {name: evaluations[-1][tag] for tag, name in names.items()} if comparable else None,
        "episodes": [
            {"seed": seed, "return": episode_return, "length": length, "video": path.name}
            for seed, episode_return, length, path in columns
        ],
    }


def _draw(run: RunDirectory, config: Config, step: int, path: Path) -> None:
    from agents.runs.curves import draw_curves
    from agents.runs.metrics import read_metrics

    draw_curves(read_metrics(run.metrics_file), path, f"{config.env} ({run.path.name})", marked_step=step)


def _summary(report: dict[str, Any]) -> str:
    """The score in words, and whether it is that of the run's own evaluation."""
    spread = f"{report['return_mean']:.1f} +- {report['return_std']:.1f}"
    logged = report["logged"]
    if logged is None:
        verdict = "the run has no evaluation of the same episodes at this step"
    elif all(report[name] == value for name, value in logged.items()):
        verdict = "exactly as the run's evaluation at this step"
    else:
        verdict = f"but the run's evaluation there gave {logged['return_mean']:.1f} +- {logged['return_std']:.1f}"
    return f"Return at step {report['checkpoint_step']:,}: {spread}; {verdict}"


if __name__ == "__main__":
    command_line.run(main)
