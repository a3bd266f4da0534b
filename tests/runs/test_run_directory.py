import concurrent.futures
import json
import os
import re
import shutil
import threading

import numpy as np
import pytest

from agents.errors import RunLostError, UsageError
from agents.runs.checkpoint_files import write
from agents.runs.run_directory import RunDirectory, check_writable, resolve_run
from agents.settings.config_file import load_config


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
    assert list(run.path.parent.iterdir()) == [run.path]
    assert RunDirectory.new(tmp_path, "<make_env>").path.name.endswith("-make_env")


def test_a_logdir_in_which_nothing_can_be_created_is_refused(tmp_path):
    (tmp_path / "data").symlink_to("/nowhere/at/all")  # Such as a disk that is not mounted.
    (tmp_path / "file").touch()
    broken = f"{tmp_path}/data is a link to /nowhere/at/all, which does not exist"
    refusals = {
        "data": broken,
        "data/logs": broken,
        "file": "not a folder",
        "file/logs": "not a folder",
        "latest": "latest is the name of the newest run",
        "latest/videos": "latest is the name of the newest run",
        "/proc/logs": "/proc is not writable",  # Not even for root.
    }
    for name, words in refusals.items():
        message = refused(RunDirectory.new, tmp_path / name, "pendulum")
        assert message.startswith(f"--logdir={tmp_path / name}: ") and words in message
    message = refused(check_writable, tmp_path / "latest", "--outdir")
    assert message.startswith(f"--outdir={tmp_path}/latest: ")
    assert {path.name for path in tmp_path.iterdir()} == {"data", "file"}


def test_an_error_is_written_with_its_traceback(tmp_path):
    run = RunDirectory(tmp_path)
    try:
        raise ValueError("odd")
    except ValueError as error:
        assert run.write_error(error) == f"The whole traceback is in {tmp_path}/error.txt"
        missing = RunDirectory(tmp_path / "missing").write_error(error)
    text = (tmp_path / "error.txt").read_text()
    assert text.startswith("Traceback") and text.endswith("ValueError: odd\n")
    assert missing.endswith("missing/error.txt: No such file or directory")


def test_an_existing_run_is_found_by_its_time(tmp_path):
    def find(*arguments):
        return RunDirectory.existing(tmp_path, *arguments).path.name

    assert "there are no runs" in refused(find, "20260131T120000")
    assert "there are no runs" in refused(find, "latest")
    pendulum, second, ant, newest = names = (
        "20260131T120000-pendulum",
        "20260131T120000_1-pendulum",
        "20260131T120001-ant",
        "20260201T120000-ant",
    )
    make_runs(tmp_path, *names)
    for arguments, expected in {
        ("20260131T120000",): pendulum,
        ("20260131T120000_1",): second,
        (pendulum,): pendulum,
        (pendulum, "pendulum"): pendulum,
        ("20260131T120001", "ant"): ant,
        ("latest",): newest,
        ("latest", "pendulum"): second,
        ("latest", "ant"): newest,
    }.items():
        assert find(*arguments) == expected
    message = refused(find, "latest", "walker")
    assert message.startswith("--timestamp=latest with --config=walker: no such run in ")
    message = refused(find, "20260131T120002")
    assert "--timestamp=20260131T120002" in message and newest in message
    for whose in ("20260131T120000", pendulum):
        assert "--config=cartpole" in refused(find, whose, "cartpole")
    for pattern in (".*", "2026*", "20260131T12000", "20260131T120000-pendul"):
        refused(find, pattern)
    make_runs(tmp_path, "20260131T120000-cartpole")
    message = refused(find, "20260131T120000")
    assert "several" in message and "--config" in message
    assert find("20260131T120000", "cartpole") == "20260131T120000-cartpole"


def test_a_run_is_no_folder_for_runs(tmp_path):
    run = RunDirectory.new(tmp_path, "pendulum")
    (run.path / "config.yaml").touch()
    run.record_command("agents train", "versions")
    for message in (
        refused(RunDirectory.new, run.path, "pendulum"),
        refused(RunDirectory.existing, run.path, "latest"),
        refused(RunDirectory.existing, tmp_path / "latest", run.timestamp),
    ):
        assert f"{run.path} is a run, expected a folder for runs" in message
        assert f"--logdir={tmp_path} --timestamp={run.timestamp} resumes that run" in message
    (tmp_path / "config.yaml").touch()  # Someone's own file.
    RunDirectory.new(tmp_path, "pendulum")


def test_a_folder_of_no_run_is_refused(tmp_path):
    assert "not a folder" in refused(RunDirectory.of, tmp_path / "nowhere")
    assert "is not a run" in refused(RunDirectory.of, tmp_path)
    make_runs(tmp_path, "20260131T120000-pendulum")
    assert "did you mean" in refused(RunDirectory.of, tmp_path)
    path = tmp_path / "20260131T120000-pendulum"
    run = RunDirectory.of(path)
    assert run.path == path and RunDirectory.of(run) is run


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        (["20260131T120000-pendulum"], "20260131T120000-pendulum"),
        (["20260201T000000-ant", "20260131T120000-pendulum", "zoo"], "20260201T000000-ant"),
        # Of the same second.
        (["20260131T120000-b", "20260131T120000_2-a", "20260131T120000_10-a"], "20260131T120000_10-a"),
        (["20260131T120000-b", "20260131T120000-a"], "20260131T120000-b"),
        (["a", "b"], "b"),  # Made by `agents.train(run=...)`.
    ],
)  # fmt: skip
def test_latest_names_the_newest_run(tmp_path, names, newest):
    make_runs(tmp_path, *names)
    (tmp_path / "20270101T000000-no_run").mkdir()
    sweep = tmp_path / "20270101T000000-sweep-pendulum"
    make_runs(sweep, "trial-0000")
    (sweep / "journal.jsonl").touch()
    assert RunDirectory.of(tmp_path / "latest").path == tmp_path / newest
    assert resolve_run(f"{tmp_path}/latest/") == tmp_path / newest
    assert resolve_run(tmp_path / newest) == tmp_path / newest
    if newest != "b":
        assert RunDirectory.existing(tmp_path, "latest").path == tmp_path / newest


def test_latest_names_the_newest_run_also_if_it_is_unfinished_or_damaged(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        message = refused(RunDirectory.of, folder / "latest")
        assert message.endswith(f"latest: there are no runs in {folder}")
    make_runs(tmp_path, "20260131T120000-pendulum")
    newest = RunDirectory.of(tmp_path / "latest")
    assert "120000-pendulum: the run has no checkpoint yet" in refused(newest.checkpoint, "last")
    newest.config_file.write_text("damaged")
    assert f"can't read {newest.config_file}" in refused(newest.load_config)
    assert RunDirectory.of(tmp_path / "latest").path == newest.path


def test_a_folder_that_is_named_latest_has_precedence(tmp_path):
    make_runs(tmp_path, "latest", "20260131T120000-pendulum")
    assert RunDirectory.of(tmp_path / "latest").path == tmp_path / "latest"
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "latest").symlink_to(tmp_path / "20260131T120000-pendulum")
    assert RunDirectory.of(tmp_path / "logs" / "latest").path == tmp_path / "logs" / "latest"
    assert RunDirectory.new(tmp_path / "latest", "a").path.parent == tmp_path / "latest"


def save_checkpoints(run, *steps, best):
    for step in steps:
        write(run.checkpoints, step, {"a": np.zeros(3)}, best=False)
    write(run.checkpoints, best, {"a": np.zeros(3)}, best=True)


def test_checkpoints_are_found_by_name_and_the_last_one_is_intact(tmp_path):
    run, folder = RunDirectory(tmp_path), tmp_path / "checkpoints"
    assert "no checkpoint yet" in refused(run.checkpoint, "last")
    save_checkpoints(run, 800, 900, 1000, best=500)
    names = {
        "last": "step-1000",
        "best": "best/step-500",
        "900": "step-900",
        "500": "best/step-500",
    }
    for which, name in names.items():
        assert run.checkpoint(which) == folder / name
    run.prepare(load_config("pendulum"))
    assert "without average_decay" in refused(run.checkpoint, "averaged")
    message = refused(run.checkpoint, "700")
    assert "700" in message and "best, last, 500, 800, 900, 1000" in message
    (folder / "step-1000.npz").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="step-1000.npz .*step-900.npz is used instead"):
        assert run.checkpoint("last") == folder / "step-900"
    assert "step-1000.npz is damaged" in refused(run.checkpoint, "1000")
    write(run.checkpoints, 1000, {"a": np.zeros(3)}, best=True)
    assert run.checkpoint("1000") == folder / "best" / "step-1000"
    (folder / "best" / "step-1000.npz").unlink()
    write(run.checkpoints, 500, {"a": np.zeros(3)}, best=True)
    for step in (800, 900):
        (folder / f"step-{step}.npz").unlink()
    with pytest.warns(UserWarning, match="step-1000.npz .*best/step-500.npz is used instead"):
        assert run.checkpoint("last") == folder / "best" / "step-500"
    (folder / "best" / "step-500.npz").write_bytes(b"")
    with pytest.warns(UserWarning, match="no checkpoint"):
        assert "all checkpoints of the run are damaged" in refused(run.checkpoint, "last")


@pytest.mark.parametrize(
    ("rows", "scheduled", "best", "is_started"),
    [
        ([], False, False, False),
        ([50, 100], False, False, False),
        ([50, 150], False, False, True),
        ([50], True, False, True),
        ([50], False, True, False),  # It starts over, as the run that never stopped.
        ([], False, True, True),
        ([50, 150], False, True, True),
    ],
)
def test_a_run_is_started_after_its_first_checkpoint(tmp_path, rows, scheduled, best, is_started):
    run = RunDirectory(tmp_path)
    run.metrics_file.write_text("".join(json.dumps({"step": step}) + "\n" for step in rows))
    for which in [which for which, is_there in ((False, scheduled), (True, best)) if is_there]:
        write(run.checkpoints, 50, {"a": np.zeros(3)}, best=which)
    assert run.is_started(100) == is_started
    for path in run.checkpoints.glob("**/*.npz"):
        path.write_bytes(b"damaged")
    assert run.is_started(100) == is_started


def test_runs_started_at_once_have_different_folders(tmp_path):
    barrier = threading.Barrier(8)

    def start(_):
        barrier.wait()
        return RunDirectory.new(tmp_path / "logs", "pendulum").path

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(start, range(8)))
    assert paths == set((tmp_path / "logs").iterdir()) and len(paths) == 8


def test_a_new_run_in_which_nothing_was_trained_can_be_discarded(tmp_path):
    logdir = tmp_path / "some" / "logs"
    run = RunDirectory.new(logdir, "pendulum")
    with pytest.raises(UsageError), run.locked(load_config("pendulum")):
        run.prepare(load_config("pendulum"))
        raise UsageError("no such environment")
    assert list(tmp_path.iterdir()) == []
    run = RunDirectory.new(logdir, "pendulum")
    run.prepare(load_config("pendulum"))
    run.metrics_file.write_text("{}")
    run.discard()
    assert run.config_file.exists()
    RunDirectory(run.path).discard()  # Not a new one.
    assert run.config_file.exists()


def test_a_locked_run_is_refused_and_stays(tmp_path):
    run = RunDirectory.new(tmp_path, "pendulum")
    config = load_config("pendulum")
    with run.locked(config):
        with pytest.raises(UsageError, match=f"trained by process {os.getpid()} on host"):
            with RunDirectory(run.path).locked(config):
                pytest.fail("it is locked")
        assert run.path.is_dir()
    with run.locked(config):
        pass


def test_what_a_killed_process_left_is_removed(tmp_path):
    run = RunDirectory(tmp_path)
    run.prepare(load_config("pendulum"))
    save_checkpoints(run, 800, best=800)
    kept = set(tmp_path.rglob("*"))
    for path in (run.checkpoints / "best", run.path):
        (path / "step-900.npz.unfinished").touch()
    for folder in (run.videos, run.checkpoints / "replay"):
        folder.mkdir()
        kept.add(folder)
        (folder / "step-900.unfinished").touch()
    with run.locked(load_config("pendulum")):
        pass
    assert set(tmp_path.rglob("*")) == kept | {run.lock_file}


def test_the_configuration_is_only_written_if_it_changes(tmp_path):
    run = RunDirectory(tmp_path)
    config = load_config("pendulum")
    run.prepare(config)
    before = run.config_file.stat()
    run.prepare(config)
    assert run.config_file.stat() == before
    run.prepare(load_config("pendulum", steps=5))
    assert run.load_config().steps == 5


@pytest.mark.parametrize(
    "name",
    ["lock", "config.yaml", "metrics.jsonl", "checkpoints", "checkpoints/step-800.npz",
     "checkpoints/best", "checkpoints/best/step-800.npz", "train/events.out.tfevents.1", "eval",
     "videos", "videos/step-800.mp4", "checkpoints/replay", "checkpoints/replay/step-800.npz"],
)  # fmt: skip
def test_links_are_refused_by_name(tmp_path, name):
    """tests/faults/test_hostile_runs.py has pipes and hard links."""
    run = RunDirectory(tmp_path / "run")
    run.prepare(load_config("pendulum"))
    save_checkpoints(run, 800, best=800)
    for folder in (run.train_events, run.eval_events, run.videos):
        folder.mkdir()
    if name.startswith("checkpoints/replay/"):
        (run.checkpoints / "replay").mkdir()
    path, outside = run.path / name, tmp_path / "outside"
    if path.exists():
        path.rename(outside)
    path.symlink_to(outside)
    with pytest.raises(UsageError, match=name) as caught:
        with run.locked(load_config("pendulum")):
            pass
    assert len(str(caught.value).splitlines()) <= 3


def test_a_run_whose_folder_is_a_link_can_be_used(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.prepare(load_config("pendulum"))
    save_checkpoints(run, 800, best=800)
    (tmp_path / "link").symlink_to(run.path)
    linked = RunDirectory(tmp_path / "link")
    with linked.locked(load_config("pendulum", steps=7)):
        assert linked.checkpoint("last").name == "step-800"
    with run.locked(load_config("pendulum")):  # It is moved to another disk.
        run.path.rename(tmp_path / "disk")
        run.path.symlink_to(tmp_path / "disk")
        run.check_in_place()


def recorded_run(tmp_path):
    run = RunDirectory(tmp_path / "20260131T120000-pendulum")
    config = load_config("pendulum", network="my_module:f", env_kwargs={"g": 5})
    run.prepare(config)
    record = {"settings": config.model_dump(mode="json"), "spaces": {}}
    write(run.checkpoints, 100, {"step": np.array(100)}, best=False, record=record)
    return run, config, run.config_file.read_text()


@pytest.mark.parametrize(
    "before, after, keeps_checksum, message",
    [
        ("- 64\n- 64", "- 64\n- 65536", True, r"in layers: \[64, 65536\] and \[64, 64\]"),
        ("- 64\n- 64", "- 64\n- 65536", False, r"in layers: \[64, 65536\] and \[64, 64\]"),
        ("  g: 5", "  g: 7", False, "in env_kwargs: {'g': 7} and {'g': 5}"),
        ("device: auto", "device: cpu", True, "in device: 'cpu' and 'auto'"),
        ("device: auto\n", "", False, None),  # Its default.
        ("seed: 0", "seed:  0", True, "its checksum is wrong"),
        ("my_module:f", "my_other:f", True, "in network: 'my_other:f' and 'my_module:f'"),
        ("my_module:f", "my_other:f", False, None),  # A module was renamed.
        ("my_module:f", "feed_forward", False, "in network: 'feed_forward' and 'my_module:f'"),
    ],
)
def test_settings_that_differ_from_the_checkpoint_are_named(
    tmp_path, before, after, keeps_checksum, message
):
    run, _, text = recorded_run(tmp_path)
    assert text.count(before) == 1
    lines = text.replace(before, after).splitlines()
    run.config_file.write_text("\n".join(lines if keeps_checksum else lines[:-1]))
    if message is None:
        run.load_config()
    else:
        assert re.search(f"config.yaml .*{message}", refused(run.load_config))


def test_settings_of_a_resumed_run_may_differ_from_the_checkpoint(tmp_path):
    run, config, _ = recorded_run(tmp_path)
    longer = config.model_copy(update={"steps": 10**9, "env_backend": "inline"})
    run.prepare(longer)
    assert run.load_config() == longer
    assert run.load_config(seed=3) == longer.model_copy(update={"seed": 3})


def move_parent(path):
    path.parent.rename(path.parent.with_name("parent"))


def replace_parent(path):
    move_parent(path)
    path.parent.write_text("")


def replace(path):
    shutil.rmtree(path)
    path.mkdir()
    (path / "lock").touch()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda path: path.rename(path.with_name("moved")),
            "run was moved to .*/logs/moved, during training",
        ),
        (move_parent, "run was moved to .*/parent/run, during training"),
        (replace_parent, "run was moved to .*/parent/run, during training"),
        (shutil.rmtree, "run was deleted, during training"),
        (replace, "run was replaced, or its file 'lock' was, during training"),
        (lambda path: (path / "lock").unlink(), "run was replaced, or its file 'lock' was, during"),
    ],
)
def test_a_locked_folder_that_is_not_in_place_raises(tmp_path, change, said):
    run = RunDirectory(tmp_path / "logs" / "run")
    with run.locked(load_config()):
        run.prepare(load_config())
        run.check_in_place()
        change(run.path)
        before = sorted(tmp_path.rglob("*"))
        for write in (run.check_in_place, lambda: run.prepare(load_config(seed=1))):
            with pytest.raises(RunLostError, match=said) as raised:
                write()
            assert len(str(raised.value).splitlines()) == 2
    run.check_in_place()
    run.discard()
    assert sorted(tmp_path.rglob("*")) == before


def test_paths_are_absolute_and_know_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    runs = (
        RunDirectory("logs/run"),
        RunDirectory("~/logs/run"),
        RunDirectory.new("~/logs", "pendulum"),
    )
    os.rmdir(runs[2].path)
    monkeypatch.chdir("/")
    assert [run.path.parent for run in runs] == 3 * [tmp_path / "logs"]


def test_relative_paths_in_a_deleted_folder_are_refused(tmp_path, monkeypatch):
    folder = tmp_path / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(UsageError, match="'logs' is relative to, does not exist any more"):
        RunDirectory.new("logs", "pendulum")
    assert RunDirectory(tmp_path / "run").path == tmp_path / "run"
    os.chdir("/")


def test_a_lost_configuration_of_a_run_issues_a_warning(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.prepare(load_config())
    write(run.checkpoints, 10, {"a": np.zeros(2)}, best=False)
    run.config_file.unlink()
    with pytest.warns(UserWarning, match="config.yaml was lost"), run.locked(load_config()):
        pass
