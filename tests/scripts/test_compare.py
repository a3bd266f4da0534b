import csv
import os
import re
import shutil
import sys

import numpy as np
import pytest
import scipy.stats

from agents.errors import UsageError
from agents.scripts.compare import main
from agents.settings.reports import run
from tests.runs.synthetic_runs import training_rows, write_run

SCORES = np.random.default_rng(0).normal(-300, 50, size=(2, 3, 4))  # [groups, seeds, evaluations]


@pytest.fixture
def log(tmp_path):
    """Two groups of three seeds: learning rates 0.001 and 0.0001, evaluated every 1,000 steps."""
    for group, rate in enumerate((1e-3, 1e-4)):
        for seed in range(3):
            rows = training_rows(SCORES[group, seed], rate=100 * (group + 1))
            folder = tmp_path / "log" / f"2026013{seed}T12000{group}-pendulum"
            write_run(folder, rows, learning_rate=rate, seed=seed)
    return tmp_path / "log"


def read_csv(folder):
    with (folder / "comparison.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_logdir_is_compared_without_tensorflow(log, tmp_path, capfd, monkeypatch):
    for name in ("tensorflow", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    main([str(log), f"--outdir={tmp_path / 'out'}"])
    printed = capfd.readouterr()
    assert printed.err == "Comparing 6 runs\n"
    assert sorted(os.listdir(tmp_path / "out")) == ["comparison.csv", "comparison.png"]
    assert (tmp_path / "out" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    rows = read_csv(tmp_path / "out")
    assert list(rows[0]) == ["env", "group", "steps", "iqm", "low", "high", "seeds"]
    labels = ["learning_rate=0.0001", "learning_rate=0.001"]
    assert [(row["env"], row["group"], row["steps"], row["seeds"]) for row in rows] == [
        ("Pendulum-v1", label, str(step), "3")
        for label in labels
        for step in (1000, 2000, 3000, 4000)
    ]
    scores = SCORES[::-1]
    columns = np.array([[row[name] for name in ("iqm", "low", "high")] for row in rows], float)
    expected = [scipy.stats.trim_mean(scores, 0.25, axis=1), scores.min(axis=1), scores.max(axis=1)]
    np.testing.assert_allclose(columns, np.stack(expected, axis=-1).reshape(-1, 3))
    last = [
        f"3  {iqm[-1]:.1f} [{low[-1]:.1f}, {high[-1]:.1f}]  {iqm.max():.1f}  4,000"
        for iqm, low, high in zip(*expected, strict=True)
    ]
    assert [" ".join(line.split()) for line in printed.out.splitlines()] == [
        "Pendulum-v1, interquartile mean of eval/return_mean:",
        "seeds last [95 % interval] best steps minutes steps/s group",
        " ".join(f"{last[0]} 0.5 200 {labels[0]}".split()),
        " ".join(f"{last[1]} 0.8 100 {labels[1]}".split()),
        "The interval of 3 seeds is too narrow: it misses the true value in about 25 % of cases "
        "instead of 5 %.",
        f"Wrote comparison.png and comparison.csv to {tmp_path / 'out'}",
    ]


def test_runs_are_named_one_by_one_and_count_once(log, tmp_path, capfd):
    runs = sorted(map(str, log.glob("*T120000-pendulum")))
    main([runs[0], f"--outdir={tmp_path / 'out'}", f"{runs[0]}/", *runs, f"{log}/../log"])
    printed = capfd.readouterr()
    assert printed.err == "Comparing 6 runs\n"
    assert {row["seeds"] for row in read_csv(tmp_path / "out")} == {"3"}
    main([*runs, f"--outdir={tmp_path / 'out'}"])
    assert {row["group"] for row in read_csv(tmp_path / "out")} == {"all runs"}


def test_a_sweep_in_a_logdir_is_named(log, tmp_path):
    shutil.copytree(log, tmp_path / "logs")
    sweep = tmp_path / "logs" / "20260131T120000-sweep-pendulum"
    sweep.mkdir()
    (sweep / "journal.jsonl").write_text("")
    with pytest.warns(
        UserWarning, match=f"trials of sweeps are left out; .* give its folder {sweep}"
    ):
        main([str(tmp_path / "logs"), f"--outdir={tmp_path / 'out'}"])


def test_minutes_and_other_metrics(log, tmp_path, capfd):
    main([str(log), "--outdir", str(tmp_path / "out"), "--axis=minutes"])
    rows = read_csv(tmp_path / "out")
    assert list(rows[0])[2] == "minutes"
    np.testing.assert_allclose(
        [60 * float(row["minutes"]) for row in rows], [7, 14, 21, 28, 12, 24, 36, 48]
    )
    main([str(log), f"--outdir={tmp_path / 'out'}", "--metric=perf/steps_per_second"])
    assert [float(row["iqm"]) for row in read_csv(tmp_path / "out")] == [200] * 4 + [100] * 4


def test_a_single_run_says_that_it_has_no_interval(tmp_path, capfd):
    write_run(tmp_path / "run", training_rows([0.25, 0.5]))
    main([str(tmp_path / "run"), f"--outdir={tmp_path / 'out'}"])
    printed = capfd.readouterr().out
    assert re.search(r" 1 +0\.500 \[no interval\] ", printed)
    assert "may be chance" not in printed  # There is nothing to compare it with.
    assert [(row["iqm"], row["low"], row["high"]) for row in read_csv(tmp_path / "out")] == [
        ("0.25", "", ""),
        ("0.5", "", ""),
    ]


def test_the_difference_of_a_single_run_may_be_chance(tmp_path, capfd):
    for name, env in (("a", "Pendulum-v1"), ("b", "CartPole-v1"), ("c", "Pendulum-v1")):
        rate = 0.01 if name == "c" else 0.001
        write_run(tmp_path / name, training_rows([0.5]), env=env, learning_rate=rate)
    one_each = [str(tmp_path / name) for name in ("a", "b")]
    main([*one_each, f"--outdir={tmp_path / 'out'}"])
    assert "may be chance" not in capfd.readouterr().out
    main([*one_each, str(tmp_path / "c"), f"--outdir={tmp_path / 'out'}"])
    assert "One seed has no interval: its difference" in capfd.readouterr().out


def test_runs_without_evaluations_and_of_another_version_are_left_out(log, tmp_path):
    write_run(log / "20260208T120000-pendulum", [], seed=6)
    other = write_run(log / "20260209T120000-pendulum", training_rows([1.0]), seed=7)
    other.config_file.write_text(other.config_file.read_text() + "old_setting: 1\n")
    with pytest.warns(UserWarning) as issued:
        main([str(log), f"--outdir={tmp_path / 'out'}"])
    left_out, without = (str(warning.message) for warning in issued)
    assert "20260209T120000-pendulum is left out: unknown setting" in left_out
    assert "20260208T120000-pendulum has no eval/return_mean yet" in without
    assert {row["seeds"] for row in read_csv(tmp_path / "out")} == {"3"}
    with pytest.raises(UsageError, match="unknown setting 'old_setting'"):
        main([str(other.path), f"--outdir={tmp_path / 'out'}"])


def test_a_resumed_run_equals_one_that_never_stopped(tmp_path, capfd):
    rows = training_rows([1, 2, 3, 4])
    write_run(tmp_path / "log" / "whole", rows, seed=0)
    later = [{**row, "wall_time": row["wall_time"] + 1e6} for row in rows[4:]]
    write_run(tmp_path / "log" / "resumed", rows[:4] + later, seed=1)
    for axis in ("steps", "minutes"):
        main([str(tmp_path / "log"), f"--outdir={tmp_path / 'out'}", f"--axis={axis}"])
        found = read_csv(tmp_path / "out")
        assert [row["iqm"] for row in found] == ["1", "2", "3", "4"]
        assert [row["low"] for row in found] == [row["high"] for row in found]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], r"^RUN is required: .*<logdir>/<time>-<config>.*\n--outdir is required: Folder for "),
        (["--logdir={log}", "--outdir=out"], "RUN is given without an option: agents compare RUN"),
        (["nowhere", "--outdir=out"], "nowhere is not a folder; expected a run's folder such as"),
        (["{log}", "{empty}", "--outdir=out"], "empty has no runs in it; expected a run's folder"),
        (["{log}", "--outdir={file}"], "--outdir=.*file: .*file is not a folder"),
        (["{log}", "--outdir=/proc/out"], "--outdir=/proc/out: "),
        (["{log}", "--outdir=out", "--axis=hours"], "--axis: expected .*steps.*minutes, got 'hours"),
        (["{log}", "--outdir=out", "--metric=eval/return"], "did you mean eval/return_mean?"),
        (["{log}", "--outdir=out", "--metric=xyz"], "--metric=xyz: no run has this metric; they have eval/return"),
        (["{new}", "--outdir=out"], "no run has an evaluation yet; train longer"),
        (["{fresh}", "--outdir=out", "--metric=a"], "^no run has metrics yet; train longer"),
    ],
)  # fmt: skip
def test_errors(log, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    write_run(tmp_path / "new", training_rows([np.nan]))
    write_run(tmp_path / "fresh", [])
    places = {name: tmp_path / name for name in ("empty", "file", "new", "fresh")}
    given = [argument.format(log=log, **places) for argument in arguments]
    with pytest.raises(UsageError) as caught:
        main(given)
    assert re.search(message, str(caught.value)), caught.value
    assert len(str(caught.value).splitlines()) <= 3
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("always")
def test_no_escape_sequence_of_a_file_reaches_the_terminal(tmp_path, capsys):
    logdir = tmp_path / "logs\x1b[31m"
    for learning_rate in (1e-3, 1e-4):
        settings = {"env": "\x1b]0;title\x07$env$\x9b2J", "learning_rate": learning_rate}
        rows = training_rows([1, 2])
        rows.append({**rows[0], "\x1b[1m": 1})
        write_run(logdir / f"run\x1b[2J-{learning_rate}", rows, **settings)
    write_run(logdir / "empty\x1b[2J", [])
    arguments = [str(logdir), f"--outdir={tmp_path / 'out'}"]
    run(main, arguments)
    with pytest.raises(SystemExit):
        run(main, [*arguments, "--metric=x\x1b[2J"])
    printed = "".join(capsys.readouterr())
    for text in (r"\x1b]0;title\x07$env$\x9b2J", r"empty\x1b[2J", r"they have \x1b[1m"):
        assert text in printed
    assert all(one.isprintable() or one == "\n" for one in printed)
