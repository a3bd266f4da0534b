"""Draws episodes of a policy while it is trained."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agents import stop_signals
from agents.deployment.recording import Source, may_draw, play
from agents.environments.frame_strip import FrameStrip
from agents.environments.video import RecordEpisode
from agents.runs.metrics import Metrics
from agents.runs.run_directory import RunDirectory
from agents.seeds import Seeds
from agents.settings.config import Config
from agents.types import Env, VectorEnv

if TYPE_CHECKING:
    from agents.deployment.trained_policy import TrainedPolicy
    from agents.graph.in_graph_env import InGraphEnv

TAG = "eval/episode"
# Of an episode that is recorded, in steps.
LONGEST_RECORDING = 2000


class TrainingRecorder:
    """Draws an evaluation episode of a policy while it is trained: frame strips and videos.

    The environment lives in a process of its own, which is started each time. What fails is one
    warning and never ends training; nothing is drawn from then on.
    """

    def __init__(
        self, config: Config, run: RunDirectory, eval_envs: VectorEnv | InGraphEnv, step: int
    ):
        """Removes videos of later steps, which a run that is resumed repeats.

        Args:
          config: The experiment.
          run: Its folder.
          eval_envs: Environments of its evaluations.
          step: Environment steps so far.
        """
        self._source, self._folder = Source(run, config), run.videos
        self._seed = int(Seeds(config.seed).many("evaluation", 1)[0])
        self._is_enabled = may_draw(config, eval_envs)
        if config.video_interval and not self._is_enabled:
            warnings.warn(f"there are no videos: {config.env} does not render pixels", stacklevel=2)
        for path in self._folder.glob("step-*.mp4"):
            found = re.fullmatch(r"step-(\d{1,18})\.mp4", path.name)
            if found and int(found[1]) > step:
                path.unlink()

    def record(self, step: int, make_policy: Callable[[], TrainedPolicy], metrics: Metrics) -> None:
        """Draws the first episode of evaluations: its strip, and its video if there are any.

        Args:
          step: Environment steps so far.
          make_policy: Returns the policy.
          metrics: Receives the strip.

        Raises:
          StopRequested: A signal asked this process to stop.
        """
        if not self._is_enabled:
            return
        try:
            video = None
            if self._source.config.video_interval:
                self._folder.mkdir(exist_ok=True)
                video = self._folder / f"step-{step}.mp4"
            metrics.image(step, TAG, self._draw(make_policy(), video))
            if video:
                metrics.video(step, TAG, video)
        except Exception as error:
            stop_signals.check()  # The signal may also have ended the worker.
            self._is_enabled = False
            reason = "; ".join(str(error).splitlines()[:2])
            warnings.warn(f"no episode is drawn, training continues: {reason}", stacklevel=2)

    def _draw(self, policy: TrainedPolicy, video: Path | None) -> bytes:
        """Returns the strip of an episode, and records a video if there is to be one."""
        # The configuration does not travel to the worker.
        speed = 1 / self._source.config.action_repeat

        def wrap(_: int, env: Env) -> Env:
            return FrameStrip(RecordEpisode(env, video, speed) if video else env)

        with self._source.drawing(1, wrap) as envs:
            play(envs, policy, self._seed, LONGEST_RECORDING)
            strip: bytes = envs.call("strip")[0]
            return strip
