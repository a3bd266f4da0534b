"""Environments that are drawn, and a film of how a run learned.

This imports TensorFlow in functions only, after environments were made: their mistakes are reported
before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agents.environments.rendering import (
    RenderingError,
    choose_camera,
    reduce_render_quality,
    rendering_without_display,
)
from agents.environments.video import RecordFilm
from agents.errors import EnvironmentRaisedError, UsageError
from agents.graph.backend import EnvBackend, IndexedWrapper, make_backend
from agents.runs.checkpoint_files import DamagedError, find_files, read, spread
from agents.runs.run_directory import RunDirectory
from agents.settings.config import PYTHON_BACKENDS, Config
from agents.spaces import leaf_spaces
from agents.tensorflow_setup import start_tensorflow
from agents.types import Env, PlainData, Space
from agents.vector.batch_env import BatchEnv

if TYPE_CHECKING:
    from agents.deployment.trained_policy import TrainedPolicy
    from agents.graph.in_graph_env import InGraphEnv
    from agents.types import VectorEnv

FILM_SCENES = 8
SCENE_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class Source:
    """The environments of a run's episodes.

    Attributes:
      run: The run.
      config: Its configuration.
      env_kwargs: Arguments of the environment's constructor beside those of the run; equal names replace them.
      camera: See `choose_camera`.
    """

    run: RunDirectory
    config: Config
    env_kwargs: Mapping[str, PlainData] = dataclasses.field(default_factory=dict)
    camera: str | None = None

    def make(self, num_envs: int) -> VectorEnv | InGraphEnv:
        """Creates the environments of the run's evaluations.

        Raises:
          UsageError: As the backend's `check` and `make`.
        """
        backend = make_backend(self.config)
        return backend.make(backend.check(), num_envs, env_kwargs=self.env_kwargs)

    @contextlib.contextmanager
    def drawing(self, num_envs: int, wrap: IndexedWrapper) -> Iterator[BatchEnv]:
        """Environments that render pixels, in worker processes, closed at the end.

        They are Gymnasium's for every backend. They never run in this process: OSMesa, with which
        MuJoCo draws, brings an LLVM that crashes together with TensorFlow's
        (github.com/tensorflow/tensorflow/issues/109933). Gymnasium's episodes are the same wherever
        its environments run.

        Args:
          num_envs: Number of environments.
          wrap: A last wrapper of each environment.

        Raises:
          RenderingError: They can't be drawn; also raised inside of the context.
          UsageError: As `make`, or there is no such camera.
        """
        camera = self.camera

        def prepare(index: int, env: Env) -> Env:
            reduce_render_quality(env)
            choose_camera(env, camera)
            return wrap(index, env)

        with _raising_rendering_errors(), rendering_without_display():
            backend = _drawing_backend(self.config)
            try:
                spec = backend.check()
            except UsageError as error:
                if self.config.env_backend in PYTHON_BACKENDS:
                    raise
                raise RenderingError(
                    f"{error}\na run with env_backend '{self.config.env_backend}' is rendered in "
                    "Gymnasium's environment of the same id"
                ) from None
            env_kwargs = {**self.env_kwargs, "render_mode": "rgb_array"}
            envs = backend.make(spec, num_envs, prepare, env_kwargs=env_kwargs)
            assert isinstance(envs, BatchEnv)
            with contextlib.closing(envs):
                yield envs


def record_film(source: Source, seed: int, path: Path) -> None:
    """Records a film of how a run learned: a scene of its policy at each of several steps.

    The first scene shows the policy as it was before training, the others kept checkpoints. All
    start from the same seed, and last for ten seconds at most.

    Args:
      source: The run.
      seed: Of every scene.
      path: The mp4 file.

    Raises:
      RenderingError: The environment can't be drawn.
    """
    run, config = source.run, source.config
    speed = 1 / config.action_repeat

    def record(_: int, env: Env) -> Env:
        return RecordFilm(env, path, speed)

    with source.drawing(1, record) as envs:
        start_tensorflow(config.threads)
        from agents.deployment.trained_policy import TrainedPolicy
        from agents.policies.policy import Policy
        from agents.runs.checkpoint import restore

        spaces = fitting_spaces(source, envs)
        policy = Policy(*spaces, config)
        actor = TrainedPolicy(policy, spaces[1], config)
        max_steps = round(SCENE_SECONDS * envs.get_attr("frame_rate")[0])
        for step, checkpoint in film_scenes(run):
            if checkpoint:
                restore(checkpoint, policy.variables())
            caption = f"step {step:,}" if step else "before training"
            envs.call("begin_scene", caption)
            play(envs, actor, seed, max_steps)
            envs.call("end_scene")


def film_scenes(run: RunDirectory) -> Iterator[tuple[int, Path | None]]:
    """Yields the steps of a film's scenes and their checkpoints, ascending; none for new weights at first.

    A checkpoint that is damaged, or that a training has replaced by later ones meanwhile, has no
    scene, and a warning says so.
    """
    initial = find_files(run.initial)
    try:
        for file in initial:
            read(file)
    except DamagedError as error:
        message = f"the film has no scene before training: {initial[0].path} is damaged ({error})"
        warnings.warn(message, stacklevel=2)
    else:
        yield 0, initial[0].path.with_suffix("") if initial else None
    kept = {file.step for file in find_files(run.checkpoints) if not file.is_best and file.step}
    for step in spread(sorted(kept), FILM_SCENES - 1):
        try:
            checkpoint = run.checkpoint(str(step))
        except UsageError as error:
            warnings.warn(f"the film has no scene of step {step:,}: {error}", stacklevel=2)
        else:
            yield step, checkpoint


def may_draw(config: Config, envs: VectorEnv | InGraphEnv) -> bool:
    """Returns whether Gymnasium's environment may render pixels, without making another one.

    Args:
      config: The experiment.
      envs: Its environments.
    """
    if isinstance(envs, BatchEnv):
        return "rgb_array" in (envs[0].metadata.get("render_modes") or ())
    try:
        _drawing_backend(config).check()
    except UsageError:  # There are environments of this id in TensorFlow or EnvPool only.
        return False
    return True


def _drawing_backend(config: Config) -> EnvBackend:
    return make_backend(config.model_copy(update={"env_backend": "process"}))


def play(envs: BatchEnv, policy: TrainedPolicy, seed: int, max_steps: int) -> None:
    """Runs an episode in an environment, or its first steps."""
    observ, _ = envs.reset(seed=seed)  # [1, ...]
    state = None
    for _ in range(max_steps):
        action, state = policy.step(observ, state)  # [1, ...], [1, U] each
        observ, _, terminated, truncated, _ = envs.step(action)
        if terminated[0] or truncated[0]:
            return


def fitting_spaces(source: Source, envs: VectorEnv | InGraphEnv) -> tuple[Space, Space]:
    """Returns observation space and action space; checks that the run's policy fits them."""
    from agents.deployment.trained_policy import run_spaces, single_spaces

    spaces = single_spaces(envs)
    if source.env_kwargs:
        names = ("observations", "actions")
        for name, now, trained in zip(names, spaces, run_spaces(source.run), strict=True):
            if _form(now) != _form(trained):
                raise UsageError(
                    f"--env-kwargs: the policy was trained with {name} of {trained}\n"
                    f"with these arguments, the environment has {now}"
                )
    return spaces


def _form(space: Space) -> list[tuple[object, ...]]:
    """Returns what a policy depends on of a space: types and shapes of its leaves, no bounds."""
    return [
        (
            type(leaf),
            leaf.shape,
            leaf.dtype,
            getattr(leaf, "n", None),
            str(getattr(leaf, "nvec", "")),
        )
        for leaf in leaf_spaces(space)
    ]


@contextlib.contextmanager
def _raising_rendering_errors() -> Iterator[None]:
    """Raises a worker's rendering error, which arrives as text, with its own type."""
    try:
        yield
    except EnvironmentRaisedError as error:
        reason = error.summary.partition(f"{RenderingError.__name__}: ")[2]
        if not reason:
            raise
        raise RenderingError(reason) from error
