"""Folders of runs that nobody trained: a configuration, and metrics as training writes them."""

import json

import numpy as np

from agents.runs.run_directory import RunDirectory
from agents.settings.config_file import load_config, save_config


def write_run(folder, rows, **settings):
    """Writes a run with these lines of metrics.jsonl; `settings` change the preset pendulum."""
    run = RunDirectory(folder)
    run.path.mkdir(parents=True)
    save_config(load_config("pendulum", **settings), run.config_file)
    run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def training_rows(scores, interval=1000, rate=100.0, start=1e9, evaluation=2.0, first=0):
    """Lines of a training: every `interval` steps a log line, and an evaluation after it.

    Args:
      scores: Returns of the evaluations; NaN for one that was not written.
      interval: Environment steps between them.
      rate: Environment steps per second.
      start: Time of the process's first iteration, in seconds.
      evaluation: Duration of an evaluation in seconds.
      first: Environment step that the process starts from.
    """
    rows, now = [], start
    for index, score in enumerate(scores):
        step = first + (index + 1) * interval
        now += interval / rate
        rows.append({"step": step, "wall_time": now, "perf/steps_per_second": rate})
        if not np.isnan(score):
            now += evaluation
            rows.append({"step": step, "wall_time": now, "eval/return_mean": float(score)})
    return rows


def learning_rows(seed, best=-200.0, speed=1.0, num_scores=20, noise=60.0, **details):
    """Lines of a training whose returns rise from -1,400 to `best`."""
    random = np.random.default_rng(seed)
    progress = 1 - np.exp(-np.arange(1, num_scores + 1) * speed * random.uniform(0.7, 1.3) / 4)
    scores = -1400 + (best + 1400) * progress + random.normal(0, noise, num_scores)
    return training_rows(scores, **details)
