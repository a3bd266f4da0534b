"""Trainings without TensorFlow: scores are a function of the settings."""

import json

from agents.settings.config_file import load_config
from agents.storage.run_directory import RunDirectory
from agents.sweeps import trial_training
from agents.sweeps.search_space import Choices, Range, SearchSpace
from agents.sweeps.sweep import Sweep
from agents.training.evaluation_score import EvaluationScore

SPACE = SearchSpace(
    {
        "learning_rate": Range(low=1e-4, high=1e-1, log=True),
        "rollout_length": Choices(choices=(30, 64)),
        "minibatch_size": Choices(choices=(16, 50)),
        "epochs": Range(low=1, high=9),
        "layers": Choices(choices=([8], [16, 16])),
    }
)


def new_sweep(logdir, space=SPACE, **settings):
    settings = {"steps": 1000, "eval_interval": 100, "num_envs": 2, **settings}
    config = load_config("default", minibatch_size=1, **settings)
    return Sweep.new(logdir, "default", config, space)


def train_trials(sweep, num_trials, train):
    """Trains trials without drawing pictures, which takes a second."""
    trial_training.train_trials(sweep, num_trials, train, report=lambda sweep: None)


def evaluation(run, step, score):
    """Logs a score as training does, and returns it."""
    run.path.mkdir(parents=True, exist_ok=True)
    with run.metrics_file.open("a") as file:
        file.write(json.dumps({"step": step, "eval/return_mean": score}) + "\n")
    return EvaluationScore({"eval/return_mean": score}, step, False, run.path, lambda: None)


def train(config, run, stop_at=None):
    """Approaches a score that is best for a learning rate of 0.01."""
    run = RunDirectory(run.path)
    run.prepare(config)
    final = -abs(config.learning_rate - 0.01)
    length = config.num_envs * config.rollout_length
    step = evaluated = 0
    while step < config.steps:
        step += length
        if stop_at is not None and step > stop_at:
            raise KeyboardInterrupt
        if step // config.eval_interval > evaluated or step >= config.steps:
            evaluated = step // config.eval_interval
            yield evaluation(run, step, final * (2 - min(step / config.steps, 1)))
