"""Shows a run's policy: `python -m agents.scripts.visualize --logdir=RUN --outdir=videos`."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from tqdm import tqdm

from agents import stop_signals
from agents.deployment.scores import in_words, logged_episodes, logged_scores
from agents.errors import UsageError, printable_lines
from agents.keras_settings import check_keras
from agents.paths import absolute_path
from agents.regular_files import write_atomically
from agents.runs.checkpoint_files import AVERAGED
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory, check_writable
from agents.seeds import Seeds
from agents.settings.config import PYTHON_BACKENDS
from agents.settings.entry_points import refusing_modules_in
from agents.settings.parser import parse_command
from agents.settings.reports import run, say
from agents.tensorflow_setup import start_tensorflow
from agents.types import EnvConstructor, PlainData

if TYPE_CHECKING:
    from agents.deployment.recording import Source
    from agents.graph.in_graph_env import InGraphEnv
    from agents.training.evaluation import Progress, Scores
    from agents.types import Env, VectorEnv

FILM = "film.mp4"

EXAMPLES = """\
examples:
  agents visualize --logdir=logdir/latest
  agents visualize --logdir=logdir/20260131T120000-pendulum --outdir=videos --checkpoint=best
  agents visualize --logdir=logdir/20260131T120000-pendulum --outdir=videos --episodes=1 --film
  MUJOCO_GL=egl agents visualize --logdir=logdir/20260131T120000-ant --outdir=videos --episodes=3

Guide: docs/guides/training.md"""


class VisualizeOptions(BaseModel):
    """Records a run's policy: a video and a score of each episode, and learning curves."""

    model_config = ConfigDict(extra="forbid")

    logdir: str = Field(
        min_length=1,
        description="Folder of the run, <logdir>/<time>-<config>. <logdir>/latest is the newest "
        "run.",
    )
    outdir: str | None = Field(
        None,
        min_length=1,
        description="Folder for episode-*.mp4, scores.json and curves.png. Existing files are "
        "replaced. The default is the run's folder videos.",
    )
    episodes: int | None = Field(
        None,
        ge=1,
        description="Number of complete episodes to record, all at once. The default is the run's "
        "eval-episodes.",
    )
    checkpoint: str = Field(
        "last", min_length=1, description="Checkpoint to load: best, last, averaged, or a step."
    )
    seed: int | None = Field(
        None,
        ge=0,
        le=2**31 - 1,
        description="Seed of the episodes; those of other seeds are unrelated. The default is the "
        "run's, which repeats its evaluations.",
    )
    videos: bool = Field(
        True,
        description="Records videos. With false, scores and curves take less time, and earlier videos stay.",
    )
    env_kwargs: dict[str, JsonValue] = Field(
        {},
        max_length=1000,
        description="Arguments of the environment's constructor, in addition to those of the run. "
        "Equal names replace them.",
    )
    camera: str | None = Field(
        None,
        min_length=1,
        description="Name or index of a MuJoCo camera. The default camera follows the body.",
    )
    film: bool = Field(
        False,
        description=f"Also records {FILM}, which shows the policy before training and at kept checkpoints.",
    )


def visualize(
    run: RunDirectory | str | Path,
    outdir: str | Path | None = None,
    episodes: int | None = None,
    checkpoint: str = "last",
    *,
    seed: int | None = None,
    videos: bool = True,
    env_kwargs: dict[str, PlainData] | None = None,
    camera: str | None = None,
    film: bool = False,
    env: EnvConstructor | None = None,
) -> dict[str, PlainData]:
    """Records complete episodes of a run's policy, with deterministic actions.

    By default these are the episodes of the run's evaluations, with the same scores. Runs with
    `env_backend` envpool or tf are rendered in Gymnasium's environment of the same id, in other
    episodes. An environment that can't be rendered gets scores, curves and a warning.

    Args:
      run: A run with checkpoints, or its folder.
      outdir: Folder for `episode-*.mp4`, `scores.json` and `curves.png`; replaces existing ones. By
        default `videos` in the run's folder.
      episodes: Number of episodes; by default the run's `eval_episodes`.
      checkpoint: `last`, `best`, `averaged`, or the step of one that was kept.
      seed: Seed of the episodes; by default the run's, whose evaluations they repeat.
      videos: Whether to record videos. Without them, scores and curves take less time.
      env_kwargs: Arguments of the environment's constructor beside those of the run; equal names
        replace them.
      camera: Name or index of one of MuJoCo's cameras; by default one that follows the body, if
        the model has one.
      film: Whether to record `film.mp4`: a scene before training, and for several kept checkpoints.
      env: The function that makes the environment, if the run was given one that can't be imported.
        It gets `render_mode="rgb_array"`.

    Returns:
      The content of scores.json: `run`, `env`, `checkpoint_step`, `return_mean`, `return_std`,
      `length_mean` and further means, `episodes` (each with `seed`, `return`, `length` and `video`),
      and `logged`, the scores of the run's own evaluation of `logged_episodes` episodes at this step. It
      is None unless these are its episodes, or the first ones of them.

    Raises:
      UsageError: There is no such checkpoint or camera, `episodes` is below 1, `outdir` can't be
        written to, or the policy does not fit the environment.
      EnvironmentFailure: An environment, or the process that hosts it, failed.
    """
    from agents.deployment.recording import Source, record_film
    from agents.environments.rendering import RenderingError
    from agents.environments.video import RecordEpisode
    from agents.runs.curves import plot_curves

    env_kwargs = env_kwargs or {}
    _check_options(episodes, seed, videos, film or bool(camera), env_kwargs)
    check_keras()
    run = RunDirectory.of(run)
    config = run.load_config(**({"env": env} if env else {}))
    step = int(run.checkpoint(checkpoint).name.rpartition("-")[2])
    # The same one, also where the run goes on.
    checkpoint = AVERAGED if checkpoint == AVERAGED else str(step)
    outdir = absolute_path(outdir or run.videos)
    check_writable(outdir, "--outdir")
    try:
        outdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--outdir={outdir}: {error.strerror}") from None
    source = Source(run, config, env_kwargs, camera)
    num_episodes = config.eval_episodes if episodes is None else episodes
    seeds = Seeds(config.seed if seed is None else seed).many("evaluation", num_episodes)
    digits = max(2, len(str(num_episodes - 1)))
    paths = [outdir / f"episode-{index:0{digits}}.mp4" for index in range(num_episodes)]
    # With repeated actions there is one frame for several of the environment's steps.
    speed = 1 / config.action_repeat

    def record(episode: int, env: Env) -> Env:
        return RecordEpisode(env, paths[episode], speed)

    def draw(progress: Progress) -> Scores:
        with source.drawing(num_episodes, record) as drawn:
            _remove_videos(outdir)  # Not before it is known that there will be others.
            many = "s" if num_episodes > 1 else ""
            line = f"Recording {num_episodes} episode{many} of {run.path}"
            tqdm.write(printable_lines(line), file=sys.stderr)  # Above the live line.
            scores = _evaluate(source, drawn, checkpoint, seeds, progress)
        if film:
            record_film(source, int(seeds[0]), outdir / FILM)
        return scores

    with (
        refusing_modules_in(run.path, run.path.parent),
        stop_signals.interruptible(),
        _progress(num_episodes) as progress,
    ):
        scores = None
        if videos:
            try:
                scores = draw(progress)
            except RenderingError as error:
                reason = "; ".join(str(error).splitlines())
                warnings.warn(f"no videos, but scores and curves: {reason}", stacklevel=2)
                _remove_videos(outdir)
        if scores is None:
            paths = []
            with contextlib.closing(source.make(num_episodes)) as envs:
                scores = _evaluate(source, envs, checkpoint, seeds, progress)
    report = _report(source, step, checkpoint, seeds, scores, paths)
    write_atomically(outdir / "scores.json", (json.dumps(report, indent=2) + "\n").encode())
    title = f"{config.env} ({run.path.name})"
    figure = plot_curves(read_metrics(run.metrics_file), title, marked_step=step)
    write_atomically(outdir / "curves.png", figure.image(dpi=120))
    return report


def main(arguments: list[str]) -> None:
    """Runs the command."""
    options, _ = parse_command(
        VisualizeOptions,
        arguments,
        program="agents visualize",
        examples=EXAMPLES,
    )
    run = RunDirectory.of(options.logdir)
    with stop_signals.handling("recording stops"):
        report = visualize(
            run,
            options.outdir,
            options.episodes,
            options.checkpoint,
            seed=options.seed,
            videos=options.videos,
            env_kwargs=options.env_kwargs,
            camera=options.camera,
            film=options.film,
        )
    num_videos = sum(episode["video"] is not None for episode in report["episodes"])
    files = [f"{num_videos} video{'s' if num_videos > 1 else ''}"] if num_videos else []
    files += [FILM] if num_videos and options.film else []
    written = ", ".join([*files, "scores.json and curves.png"])
    say(f"Wrote {written} to {options.outdir or run.videos}", in_words(report))


def _check_options(
    episodes: int | None,
    seed: int | None,
    videos: bool,
    draws: bool,
    env_kwargs: dict[str, PlainData],
) -> None:
    """Refuses options that contradict each other; with `draws`, some need videos."""
    if episodes is not None and episodes < 1:
        raise UsageError(f"--episodes: expected an integer of 1 or more, got {episodes}")
    if seed is not None and not 0 <= seed < 2**31:
        raise UsageError(f"--seed: expected an integer from 0 to {2**31 - 1:,}, got {seed}")
    if draws and not videos:
        raise UsageError("--videos=false: expected no --film and no --camera")
    if "render_mode" in env_kwargs:
        raise UsageError("--env-kwargs: render_mode is set as videos need it; leave it out")


def _remove_videos(outdir: Path) -> None:
    """Removes earlier videos, so that no folder mixes two policies; but no files of other names."""
    own = re.compile(r"(episode-\d+|film)\.(mp4|unfinished)")
    for path in outdir.glob("*"):
        if own.fullmatch(path.name):
            path.unlink()


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


def _evaluate(
    source: Source,
    envs: VectorEnv | InGraphEnv,
    checkpoint: str,
    seeds: np.ndarray,
    progress: Progress,
) -> Scores:
    start_tensorflow(source.config.threads)
    from agents.deployment.recording import fitting_spaces
    from agents.deployment.trained_policy import restore_policy
    from agents.training.evaluation import Evaluation
    from agents.training.learner import to_graph

    policy = restore_policy(source.run, *fitting_spaces(source, envs), checkpoint)
    return Evaluation(to_graph(envs, source.config.info_keys), policy, seeds).run(progress)


def _report(
    source: Source,
    step: int,
    checkpoint: str,
    seeds: np.ndarray,
    scores: Scores,
    paths: list[Path],
) -> dict[str, PlainData]:
    """Returns the content of scores.json; `paths` are empty if nothing was drawn."""
    config = source.config
    # What was not drawn ran in the run's own backend.
    same_episodes = config.env_backend in PYTHON_BACKENDS or not paths
    num_logged = logged_episodes(source.run, step)
    logged_seeds = Seeds(config.seed).many("evaluation", num_logged)
    same_episodes &= np.array_equal(seeds, logged_seeds[: len(seeds)])
    same_episodes &= {**config.env_kwargs, **source.env_kwargs} == config.env_kwargs
    videos: list[str | None] = [path.name for path in paths] or [None] * len(seeds)
    columns = zip(
        seeds.tolist(), scores.returns.tolist(), scores.lengths.tolist(), videos, strict=True
    )
    return {
        "run": source.run.path.name,
        "env": config.env,
        "checkpoint_step": step,
        **{tag.removeprefix("eval/"): score for tag, score in scores.scalars().items()},
        "logged": logged_scores(source.run, step, checkpoint) if same_episodes else None,
        "logged_episodes": num_logged,
        "episodes": [
            {"seed": seed, "return": episode_return, "length": length, "video": video}
            for seed, episode_return, length, video in columns
        ],
    }


if __name__ == "__main__":
    run(main)
