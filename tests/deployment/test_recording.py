import numpy as np

from agents.deployment.recording import FILM_SCENES, film_steps, may_draw
from agents.settings.config_file import load_config
from agents.storage.run_directory import RunDirectory
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
    assert film_steps(run) == [0]
    (run.checkpoints / "best").mkdir(parents=True)
    (run.checkpoints / "best" / "step-77.npz").touch()
    for step in (*range(100, 1100, 200), *range(1000, 1501, 100)):
        (run.checkpoints / f"step-{step}.npz").touch()
    steps = film_steps(run)
    assert len(steps) == FILM_SCENES
    assert steps[0] == 0 and steps[-1] == 1500 and 77 not in steps
    assert np.diff(steps).max() <= 300
