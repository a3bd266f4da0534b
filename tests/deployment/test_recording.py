import re

import numpy as np
import pytest

from agents.deployment.recording import FILM_SCENES, film_scenes, may_draw
from agents.runs.checkpoint_files import write
from agents.runs.run_directory import RunDirectory
from agents.settings.config_file import load_config
from agents.vector.batch_env import BatchEnv
from tests.environments.countdown import Countdown
from tests.training.learners import make_random_env


def test_whether_environments_in_this_process_may_be_drawn():
    config = load_config("pendulum")
    blind, drawn = (BatchEnv([env], blocking=True) for env in (make_random_env(), Countdown()))
    assert may_draw(config, drawn) and not may_draw(config, blind)


def test_environments_in_tensorflow_are_drawn_if_gymnasium_has_them(tmp_path):
    config = load_config("pendulum", env_backend="tf")
    assert may_draw(config, None)
    assert not may_draw(config.model_copy(update={"env": "Nowhere-v0"}), None)


def test_a_film_has_few_scenes_from_the_start_to_the_last_checkpoint(tmp_path):
    run = RunDirectory(tmp_path)
    assert list(film_scenes(run)) == [(0, None)]
    arrays = {"weight": np.zeros(3)}
    write(run.checkpoints, 77, arrays, best=True)
    for step in range(100, 1600, 100):
        write(run.checkpoints, step, arrays, best=False)
    steps = [step for step, _ in film_scenes(run)]
    assert len(steps) == FILM_SCENES
    assert steps[0] == 0 and steps[-1] == 1500 and 77 not in steps
    assert np.diff(steps).max() <= 300
    assert all(path.name == f"step-{step}" for step, path in film_scenes(run) if step)


def test_a_film_goes_without_checkpoints_that_are_damaged_or_gone(tmp_path):
    run = RunDirectory(tmp_path)
    for step in (100, 200, 300, 400):
        write(run.checkpoints, step, {"weight": np.full(300, step)}, best=False)
    (run.checkpoints / "step-200.npz").write_bytes(b"damaged")
    scenes = film_scenes(run)
    assert [next(scenes)[0], next(scenes)[0]] == [0, 100]
    (run.checkpoints / "step-300.npz").unlink()  # By a training that goes on.
    with pytest.warns(UserWarning) as issued:
        assert [step for step, _ in scenes] == [400]
    words = ["step 200: .* damaged", "step 300: .* no such checkpoint"]
    for warning, word in zip(issued, words, strict=True):
        assert re.search(f"the film has no scene of {word}", str(warning.message))
