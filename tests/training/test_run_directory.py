import re
import subprocess
import sys

import pytest

from agents.errors import UsageError
from agents.settings.config_file import load_config
from agents.training.run_directory import RunDirectory, check_writable


def make_runs(logdir, *names):
    for name in names:
        RunDirectory(logdir / name).prepare(load_config("pendulum"))


def refused(function, *arguments):
    with pytest.raises(UsageError) as caught:
        function(*arguments)
    assert len(str(caught.value).splitlines()) <= 3
    return str(caught.value)


def test_a_new_run_is_named_after_time_and_configuration(tmp_path):
    run = RunDirectory.new(tmp_path / "logs", "configs/mine.yaml")
    assert run.path.parent == tmp_path / "logs"
    assert re.fullmatch(r"\d{8}T\d{6}-mine", run.path.name)
    assert not run.path.parent.exists()  # Until it is prepared.


def test_runs_of_the_same_second_have_different_folders(tmp_path):
    paths = set()
    for _ in range(5):
        run = RunDirectory.new(tmp_path, "pendulum")
        run.prepare(load_config("pendulum"))
        paths.add(run.path)
    assert len(paths) == 5
    for path in paths:
        timestamp = path.name.removesuffix("-pendulum")
        assert RunDirectory.existing(tmp_path, timestamp).path == path


def test_paths_of_files(tmp_path):
    run = RunDirectory(tmp_path / "20260131T120000-pendulum")
    run.prepare(load_config("pendulum", seed=3))
    names = ("config_file", "metrics_file", "checkpoints", "train_events", "eval_events")
    paths = [getattr(run, name).relative_to(run.path).as_posix() for name in names]
    assert paths == ["config.yaml", "metrics.jsonl", "checkpoints", "train", "eval"]
    assert run.load_config() == load_config("pendulum", seed=3)
    assert run.load_config(steps=7) == load_config("pendulum", seed=3, steps=7)


def test_an_existing_run_is_found_by_its_time(tmp_path):
    make_runs(
        tmp_path,
        "20260131T120000-pendulum",
        "20260131T120000_1-pendulum",
        "20260131T120001-cartpole",
    )
    found = RunDirectory.existing(tmp_path, "20260131T120000")
    assert found.path == tmp_path / "20260131T120000-pendulum"
    assert (
        RunDirectory.existing(tmp_path, "20260131T120001", "cartpole").path.name
        == "20260131T120001-cartpole"
    )


def test_an_ambiguous_time_needs_the_configuration(tmp_path):
    make_runs(tmp_path, "20260131T120000-pendulum", "20260131T120000-cartpole")
    message = refused(RunDirectory.existing, tmp_path, "20260131T120000")
    assert "several" in message and "--config" in message
    assert (
        RunDirectory.existing(tmp_path, "20260131T120000", "cartpole").path.name
        == "20260131T120000-cartpole"
    )


def test_a_missing_run_is_refused_and_others_are_suggested(tmp_path):
    assert "there are no runs" in refused(
        RunDirectory.existing, tmp_path / "nowhere", "20260131T120000"
    )
    make_runs(tmp_path, "20260131T120000-pendulum")
    message = refused(RunDirectory.existing, tmp_path, "20260131T120001")
    assert "--timestamp=20260131T120001" in message and "20260131T120000-pendulum" in message
    assert "--config=cartpole" in refused(
        RunDirectory.existing, tmp_path, "20260131T120000", "cartpole"
    )


def test_a_time_is_not_a_pattern(tmp_path):
    make_runs(tmp_path, "20260131T120000-pendulum")
    for pattern in (".*", "2026*", "20260131T12000", "20260131T120000-pendulum"):
        refused(RunDirectory.existing, tmp_path, pattern)


def test_a_folder_of_no_run_is_refused(tmp_path):
    assert "not a folder" in refused(RunDirectory.of, tmp_path / "nowhere")
    assert "is not a run" in refused(RunDirectory.of, tmp_path)
    make_runs(tmp_path, "20260131T120000-pendulum")
    assert "did you mean" in refused(RunDirectory.of, tmp_path)
    path = tmp_path / "20260131T120000-pendulum"
    assert RunDirectory.of(path).path == path


def save_checkpoints(run, *steps, best):
    for folder, saved in ((run.checkpoints, steps), (run.checkpoints / "best", [best])):
        folder.mkdir(parents=True)
        for step in saved:
            (folder / f"step-{step}.index").touch()
            (folder / f"step-{step}.data-00000-of-00001").touch()


def test_checkpoints_are_found_by_name(tmp_path):
    run = RunDirectory(tmp_path)
    assert "no checkpoint yet" in refused(run.checkpoint, "last")
    save_checkpoints(run, 800, 1000, 900, best=500)
    folder = run.checkpoints
    assert run.checkpoint("last") == folder / "step-1000"
    assert run.checkpoint("best") == folder / "best" / "step-500"
    assert run.checkpoint("900") == folder / "step-900"
    assert run.checkpoint("500") == folder / "best" / "step-500"
    message = refused(run.checkpoint, "700")
    assert "700" in message and "best, last, 500, 800, 900, 1000" in message


def test_a_logdir_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for logdir in (tmp_path / "file", tmp_path / "file" / "logs"):
        message = refused(RunDirectory.new, logdir, "pendulum")
        assert f"--logdir={logdir}" in message and "not a folder" in message


@pytest.mark.skipif(
    sys.platform != "linux", reason="needs a folder in which not even root can create files"
)
def test_a_folder_that_is_not_writable_is_refused():
    assert "--logdir=/proc/logs: /proc is not writable" in refused(
        check_writable, "/proc/logs", "--logdir"
    )


def test_finding_a_run_does_not_import_tensorflow():
    code = "import sys, agents.training.run_directory; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
