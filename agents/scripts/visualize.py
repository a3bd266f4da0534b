"""Shows a run's policy: `python -m agents.scripts.visualize --logdir=RUN --outdir=videos`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from tqdm import tqdm

from agents import stop_signals
from agents.backends.backend import EnvBackend, make_backend
from agents.command_line.parser import parse_command
from agents.command_line.reports import run
from agents.errors import EnvironmentRaisedError, UsageError
from agents.regular_files import write_atomically
from agents.seeds import Seeds
from agents.settings.config import Config
from agents.settings.entry_points import refusing_modules_in
from agents.storage.run_directory import RunDirectory, check_writable
from agents.tensorflow_setup import start_tensorflow
from agents.types import Env, PlainData

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from agents.training.evaluation import Scores

EXAMPLES = """\
examples:
  python -m agents.scripts.visualize --logdir=logdir/20260131T120000-pendulum --outdir=videos
  python -m agents.scripts.visualize --logdir=logdir/20260131T120000-pendulum --outdir=videos --checkpoint=best
  MUJOCO_GL=egl python -m agents.scripts.visualize --logdir=logdir/20260131T120000-ant --outdir=videos --episodes=3"""


class VisualizeOptions(BaseModel):
    """Records what a run has learned: a video and a score per episode, and learning curves."""

    model_config = ConfigDict(extra="forbid")

    logdir: str = Field(min_length=1, description="Folder of the run, <logdir>/<time>-<config>.")
    outdir: str = Field(
        min_length=1,
        description="Folder for episode-*.mp4, scores.json and curves.png; replaces existing ones.",
    )
    episodes: int | None = Field(
        None,
        ge=1,
        description="Complete episodes to record, all at once; by default the run's eval-episodes.",
    )
    checkpoint: str = Field(
        "last", min_length=1, description="Checkpoint to load: best, last, or a step."
    )


def visualize(
    run: RunDirectory, outdir: str | Path, episodes: int | None = None, checkpoint: str = "last"
) -> dict[str, PlainData]:
    """Records complete episodes of a run's policy, with deterministic actions.

    By default these are the episodes of the run's evaluations, with the same scores, unless the
    run's backend starts other episodes than Gymnasium, whose environment of the same id is
    rendered. This sets environment variables of the process that environments need to render
    without a display (see `agents.environments.rendering`).

    Args:
      run: A run with checkpoints.
      outdir: Folder for `episode-*.mp4`, `scores.json` and `curves.png`; replaces existing ones.
      episodes: Number of episodes; by default the run's `eval_episodes`.
      checkpoint: `last`, `best`, or the step of one that was kept.

    Returns:
      The content of scores.json. `logged` holds mean and standard deviation of the run's own
      evaluation at this step, None where it had none of the same episodes.

    Raises:
      UsageError: There is no such checkpoint, `episodes` is below 1, `outdir` can't be written to,
        or the environment can't be rendered.
      EnvironmentFailure: An environment, or the process that hosts it, failed.
    """
    from agents.environments.rendering import render_without_display

    if episodes is not None and episodes < 1:
        raise UsageError(f"--episodes: expected an integer that is at least 1, got {episodes}")
    config = run.load_config()
    step = int(run.checkpoint(checkpoint).name.rpartition("-")[2])
    outdir = _create(Path(outdir))
    render_without_display()
    with refusing_modules_in(run.path, run.path.parent):
        backend, spec = _drawing_backend(config)
    num_episodes = config.eval_episodes if episodes is None else episodes
    seeds = Seeds(config.seed).many("evaluation", num_episodes)
    paths = _video_files(outdir, num_episodes)
    with _rendering_errors(), stop_signals.interruptible():
        scores = _record(run, config, backend, spec, seeds, paths, str(step))
    report = _report(run, config, step, seeds, scores, paths)
    write_atomically(outdir / "scores.json", (json.dumps(report, indent=2) + "\n").encode())
    _draw_curves(run, config, step, outdir / "curves.png")
    return report


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options, _ = parse_command(
        VisualizeOptions,
        arguments,
        program="python -m agents.scripts.visualize",
        examples=EXAMPLES,
    )
    run = RunDirectory.of(options.logdir)
    with stop_signals.handling("recording stops"):
        report = visualize(run, options.outdir, options.episodes, options.checkpoint)
    num_videos = len(report["episodes"])
    videos = f"{num_videos} video{'s' if num_videos > 1 else ''}"
    print(f"Wrote {videos}, scores.json and curves.png to {options.outdir}")
    print(_summary(report))


def _create(outdir: Path) -> Path:
    check_writable(outdir, "--outdir")
    try:
        outdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--outdir={outdir}: {error.strerror}") from None
    return outdir


def _drawing_backend(config: Config) -> tuple[EnvBackend, EnvSpec]:
    """The backend to record with, and the environment: Gymnasium's in worker processes."""
    # Never in this process: OSMesa, with which MuJoCo draws, brings an LLVM that crashes together
    # with TensorFlow's (github.com/tensorflow/tensorflow/issues/109933). Gymnasium's episodes are
    # the same wherever its environments run.
    backend = make_backend(config.model_copy(update={"env_backend": "process"}))
    try:
        return backend, backend.check()
    except UsageError as error:
        if make_backend(config).takes_wrappers:
            raise
        raise UsageError(
            f"{error}\na run with env_backend '{config.env_backend}' is rendered in Gymnasium's "
            "environment of the same id"
        ) from None


def _video_files(outdir: Path, num_episodes: int) -> list[Path]:
    """Paths of the videos; removes earlier ones, so that no folder mixes two policies."""
    for path in (*outdir.glob("episode-*.mp4"), *outdir.glob("episode-*.unfinished")):
        path.unlink()
    digits = max(2, len(str(num_episodes - 1)))
    return [outdir.absolute() / f"episode-{index:0{digits}}.mp4" for index in range(num_episodes)]


def _record(
    run: RunDirectory,
    config: Config,
    backend: EnvBackend,
    spec: EnvSpec,
    seeds: np.ndarray,
    paths: list[Path],
    checkpoint: str,
) -> Scores:
    """Runs and records an episode in each of N environments; `seeds` are int64 [N]."""
    from agents.environments.rendering import reduce_render_quality
    from agents.environments.video import RecordEpisode

    def record(episode: int, env: Env) -> Env:
        reduce_render_quality(env)
        # With repeated actions there is one frame for several of the environment's steps.
        return RecordEpisode(env, paths[episode], speed=1 / config.action_repeat)

    render_mode: dict[str, PlainData] = {"render_mode": "rgb_array"}
    envs = backend.make(spec, len(seeds), wrap=record, env_kwargs=render_mode)
    with contextlib.closing(envs):
        start_tensorflow(config.threads)
        from agents.deployment.trained_policy import restore_policy, single_spaces
        from agents.training.evaluation import Evaluation
        from agents.training.learner import to_graph

        policy = restore_policy(run, *single_spaces(envs), checkpoint)
        evaluation = Evaluation(to_graph(envs), policy, seeds)
        with _progress(len(seeds)) as progress:
            return evaluation.run(progress)


@contextlib.contextmanager
def _progress(num_episodes: int) -> Iterator[Callable[[int, int], None]]:
    """A live line in a terminal; drawing may take minutes."""
    hidden = not sys.stderr.isatty()
    with tqdm(total=num_episodes, unit=" episodes", disable=hidden, leave=False) as bar:

        def progress(steps: int, num_done: int) -> None:
            bar.set_postfix_str(f"{steps:,} steps each", refresh=False)
            bar.update(num_done - bar.n)
            bar.refresh()

        yield progress


@contextlib.contextmanager
def _rendering_errors() -> Iterator[None]:
    """Raises a worker's rendering error as the UsageError that it was; it arrives as text."""
    try:
        yield
    except EnvironmentRaisedError as error:
        reason = error.summary.partition("RenderingError: ")[2]
        if not reason:
            raise
        raise UsageError(reason) from error


def _report(
    run: RunDirectory,
    config: Config,
    step: int,
    seeds: np.ndarray,
    scores: Scores,
    paths: list[Path],
) -> dict[str, PlainData]:
    from agents.deployment.scores import logged_scores

    same_episodes = make_backend(config).same_episodes and len(seeds) == config.eval_episodes
    columns = zip(
        seeds.tolist(), scores.returns.tolist(), scores.lengths.tolist(), paths, strict=True
    )
    return {
        "run": run.path.name,
        "env": config.env,
        "checkpoint_step": step,
        **{tag.removeprefix("eval/"): score for tag, score in scores.scalars().items()},
        "logged": logged_scores(run, step) if same_episodes else None,
        "episodes": [
            {"seed": seed, "return": episode_return, "length": length, "video": path.name}
            for seed, episode_return, length, path in columns
        ],
    }


def _draw_curves(run: RunDirectory, config: Config, step: int, path: Path) -> None:
    from agents.storage.metrics import read_metrics
    from agents.training.curves import draw_curves

    title = f"{config.env} ({run.path.name})"
    draw_curves(read_metrics(run.metrics_file), path, title, marked_step=step)


def _summary(report: dict[str, PlainData]) -> str:
    """The score in words, compared with the run's own evaluation."""
    spread = f"{report['return_mean']:.1f} +- {report['return_std']:.1f}"
    logged = report["logged"]
    if logged is None:
        verdict = "the run has no evaluation of the same episodes at this step"
    elif all(report[name] == value for name, value in logged.items()):
        verdict = "exactly as the run's evaluation at this step"
    else:
        evaluated = f"{logged['return_mean']:.1f} +- {logged['return_std']:.1f}"
        verdict = f"but the run's evaluation there gave {evaluated}"
    return f"Return at step {report['checkpoint_step']:,}: {spread}; {verdict}"


if __name__ == "__main__":
    run(main)
