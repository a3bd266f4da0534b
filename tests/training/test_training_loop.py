import json
import shutil

import numpy as np
import pytest

from agents.deployment.space_json import space_from_json
from agents.errors import CheckpointError, UsageError
from agents.runs import checkpoint_files
from agents.runs.run_directory import RunDirectory
from agents.settings.config_file import load_config
from agents.tensor_envs import InGraphTensorEnv
from agents.training.training_loop import training_loop
from tests.toys import TWO_CHOICES
from tests.training.learners import BIKE, TINY, logged, make_tensor_env

INTERVALS = {
    "steps": 64,
    "log_interval": 16,
    "checkpoint_interval": 16,
    "eval_interval": 32,
    "histogram_interval": 0,
}


def start(run, settings=None, **options):
    config = load_config("default", **{**TINY, **INTERVALS, **(settings or {})})
    sizes = config.num_envs, config.eval_episodes
    envs = [InGraphTensorEnv(make_tensor_env(), size, max_episode_steps=5) for size in sizes]
    return training_loop(config, run, *envs, **options)


def kill():
    raise ZeroDivisionError


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "whole")
    return run, list(start(run))


def test_it_logs_evaluates_and_saves_at_their_intervals(whole):
    run, scores = whole
    rows = logged(run)
    assert [row["step"] for row in rows if "losses/policy" in row] == [16, 32, 48, 64]
    evaluations = [row for row in rows if "eval/return_mean" in row]
    assert [row["step"] for row in evaluations] == [32, 64]
    assert [row["eval/return_mean"] for row in evaluations] == scores
    saved = sorted(path.name for path in run.checkpoints.glob("step-*.npz"))
    assert saved == [f"step-{step}.npz" for step in (16, 32, 48, 64)]
    assert run.load_config() == load_config("default", **TINY, **INTERVALS)
    both = map(space_from_json, json.loads(run.spaces_file.read_text()).values())
    assert tuple(both) == (BIKE, TWO_CHOICES)


def test_an_abandoned_loop_resumes_from_its_last_iteration(whole, tmp_path):
    run, started = RunDirectory(tmp_path / "abandoned"), []
    loop = start(run, on_start=lambda: started.append(True))
    first = next(loop)
    loop.close()
    assert started == [True]
    assert (run.checkpoints / "step-32.npz").exists()
    assert run.checkpoint("last").name == "step-32"
    [second] = start(run)
    assert (first, first.step, second.step) == (whole[1][0], 32, 64)
    rows = [row for row in logged(run) if "eval/return_mean" in row]
    assert [(row["step"], row["eval/return_mean"]) for row in rows] == [(32, first), (64, second)]


def test_other_reset_options_start_another_best_score(whole, tmp_path):
    """The file has the options already when the run is killed before its next checkpoint."""
    shutil.copytree(whole[0].path, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            next(start(run, {"reset_options": {"level": 2}}, on_start=kill))
    assert run.load_config().reset_options == {"level": 2}
    with np.load(run.checkpoints / "step-64.npz") as values:
        assert values["run%2Fbest"] == np.finfo(np.float64).min


def test_another_number_of_episodes_starts_another_best_score(whole, tmp_path, capsys):
    shutil.copytree(whole[0].path, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(ZeroDivisionError):
        next(start(run, {"eval_episodes": 1}, on_start=kill))
    with np.load(run.checkpoints / "step-64.npz") as values:
        assert values["run%2Fbest"] == np.finfo(np.float64).min
    assert "The best score starts over, with new eval_episodes\n" in capsys.readouterr().err


def test_a_longer_training_says_where_its_schedules_end(whole, tmp_path, capsys):
    shutil.copytree(whole[0].path, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    for schedule in ("linear", "constant"):
        settings = {"steps": 96, "learning_rate_schedule": schedule}
        with pytest.raises(ZeroDivisionError):
            next(start(run, settings, on_start=kill))
        printed = capsys.readouterr().err
        expected = "Linear schedules now end at step 96 instead of 64\n" in printed
        assert expected == (schedule == "linear")
        shutil.copy(whole[0].config_file, run.config_file)


def test_fewer_steps_than_were_learned_from_are_refused(whole):
    before = whole[0].config_file.read_text()
    with pytest.raises(UsageError, match="the run has learned from 64 steps, got 33\nexpected"):
        next(start(whole[0], {"steps": 33}))
    assert whole[0].config_file.read_text() == before


def test_a_resumed_run_prints_its_step_and_a_new_one_does_not(whole, capsys):
    assert list(start(whole[0])) == []
    assert capsys.readouterr().err.startswith(f"Resuming {whole[0].path} from step 64\n")


def test_a_best_score_whose_checkpoint_cannot_be_saved_is_revoked(tmp_path, monkeypatch):
    run = RunDirectory(tmp_path / "run")
    (run.checkpoints).mkdir(parents=True)
    (run.checkpoints / "best").write_text("no folder, so that nothing can be saved in it")
    monkeypatch.setattr(checkpoint_files, "check_folder", lambda path: path.is_dir())
    with pytest.warns(UserWarning, match="best checkpoint of step (32|64) could not be saved"):
        list(start(run))
    with np.load(run.checkpoints / "step-64.npz") as values:
        assert values["run%2Fbest"] == np.finfo(np.float64).min


def test_training_fails_if_its_last_checkpoint_cannot_be_saved(whole, tmp_path, monkeypatch):
    write = checkpoint_files.write
    full = OSError(28, "No space left on device")

    def fails_at_the_end(folder, step, *others):
        if step == 64:
            raise full
        write(folder, step, *others)

    run = RunDirectory(tmp_path / "run")
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="step 64 could not be"):
        patch.setattr("agents.runs.checkpoint.write", fails_at_the_end)
        training, scores = start(run), []
        with pytest.raises(CheckpointError, match="last step, 64, could not be saved"):
            scores.extend(training)
    assert run.checkpoint("last").name == "step-48"
    assert list(start(run)) == [whole[1][1]]
    assert run.checkpoint("last").name == "step-64"


def test_a_run_does_not_start_over_without_its_checkpoints(whole, tmp_path):
    shutil.copytree(whole[0].path, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    shutil.rmtree(run.checkpoints)
    before = run.metrics_file.read_bytes()
    with pytest.raises(UsageError, match="could not be saved, or were deleted"):
        list(start(run, on_start=pytest.fail))
    assert run.metrics_file.read_bytes() == before and not run.checkpoints.exists()


def test_what_was_lost_since_a_checkpoint_is_said(whole, tmp_path):
    shutil.copytree(whole[0].path, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    shutil.rmtree(run.checkpoints / "best")
    shutil.rmtree(run.train_events)
    lines = run.metrics_file.read_bytes().splitlines(keepends=True)
    run.metrics_file.write_bytes(lines[0])
    with pytest.warns(UserWarning) as issued:
        scores = list(start(run, {"steps": 96}))
    assert [str(warning.message).splitlines()[0] for warning in issued] == [
        f"the best checkpoint of {run.path} was lost: the next evaluation counts as the best",
        f"{run.metrics_file} ends at step 16, expected at least 48: records were lost",
        f"{run.train_events} ends at step 0, expected at least 48: records were lost",
    ]
    assert [score.step for score in scores] == [64, 96] and scores[0].is_best
    assert run.checkpoint("best")


def test_a_run_without_a_checkpoint_says_that_it_starts_over(tmp_path, capsys):
    run = RunDirectory(tmp_path / "run\x1b[31m")  # Colors a terminal.
    run.train_events.mkdir(parents=True)
    with pytest.raises(ZeroDivisionError):
        next(start(run, on_start=kill))
    lines = capsys.readouterr().err.splitlines()
    path = tmp_path / r"run\x1b[31m"
    assert lines[0] == f"{path} has no checkpoint: training starts over"
