import json
import re
import sys

import gymnasium
import numpy as np
import pytest

import agents
from agents.deployment.space_json import spaces_to_json
from agents.errors import UsageError
from agents.runs.checkpoint_files import write
from agents.runs.preset_table import EXPECTED, preset_table
from agents.runs.run_directory import RunDirectory
from results import command
from results.runs import folder_name

LARGE = np.zeros(10**6, np.float32)  # As the state of an optimizer is, which acting does not need.


def write_run(
    logdir,
    label,
    preset,
    returns,
    seed=0,
    interval=10_000,
    settings=("--env-backend=inline",),
    name=None,
    **overrides,
):
    """Writes the files of a finished run, with evaluations every `interval` steps."""
    folder = logdir / folder_name(label, settings) / f"seed-{seed}"
    run = RunDirectory(folder / f"20260131T12000{seed}-{name or preset}")
    run.prepare(agents.load_config(preset, **overrides))
    rows = [{"step": 5_000, "perf/steps_per_second": 1000.0 + seed}]
    rows += [
        {"step": interval * (1 + index), "eval/return_mean": value}
        for index, value in enumerate(returns)
    ]
    run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    record = {"spaces": spaces_to_json(*[gymnasium.spaces.Box(-1, 1, (1,))] * 2)}
    values = {"network/policy/output/bias": np.full(1, seed, np.float32), "optimizer/adam": LARGE}
    write(run.checkpoints, interval * len(returns), values, best=False, record=record)
    timing = {"seconds": 20.0 + seed, "resumed": seed == 2, "versions": {"gymnasium": f"1.{seed}"}}
    (folder / "result.json").write_text(json.dumps(timing))


def write_results(monkeypatch, folder, *arguments):
    monkeypatch.setattr(
        sys, "argv", ["results.py", f"--logdir={folder}", f"--outdir={folder}", *arguments]
    )
    command.main()
    rows = json.loads((folder / "results" / "results.json").read_text())
    return rows, (folder / "RESULTS.md").read_text()


def test_a_row_compares_our_returns_with_published_ones(monkeypatch, tmp_path):
    for seed, last in enumerate([-150.0, -160.0, -190.0]):
        write_run(tmp_path, "pendulum", "pendulum", [-1200.123, *[-300.0] * 8, last], seed)
    table, text = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=3", "--at-once=1")
    row = table["pendulum"]
    assert (row["env"], row["preset"], row["steps"]) == ("Pendulum-v1", "pendulum", 100_000)
    assert row["returns"] == [-150, -160, -190]
    assert row["mean"] == pytest.approx(-500 / 3)
    assert row["std"] == pytest.approx(17, abs=0.01)
    assert row["seconds"] == 20.5  # Without the third run, which was resumed.
    assert row["steps_per_second"] == 1001
    assert row["versions"] == {"gymnasium": "1.2"} and "steps/s, gymnasium 1.2)" in text
    assert row["published"]["RL-Zoo"] == {"mean": -172.2, "steps": 100_000, "std": 104.2}
    assert row["target"]["mean"] == -172.2 and row["verdict"] == "reached"
    assert row["curves"]["steps"] == list(range(10_000, 110_000, 10_000))
    assert row["curves"]["returns"][0] == [-1200.12, *[-300] * 8, -150]
    assert row["command"] == "python scripts/results.py pendulum --seeds=3 --at-once=1"
    [line] = [line for line in text.splitlines() if line.startswith("| [pendulum]")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == [
        "[pendulum]",
        "100k",
        "3",
        "0.3",
        "-166.7 [-190.0, -150.0]",
        "-166.7",
        "",
        "-172.2",
        "reached",
    ]
    assert "[pendulum]: #pendulum" in text.splitlines()
    for sentence in (
        "Pendulum-v1, 100,000 steps: -166.7 ± 17.0, from -190.0 to -150.0.",
        "Published: CleanRL -1142 (8M) (training); RL-Zoo -172.2 ± 104.2 (100k) (last).",
        "As good as: CleanRL, RL-Zoo.",
        "Target -172.2 (100k): reached.",
    ):
        assert sentence in text.splitlines()
    assert "1 of 1 targets are reached. None is missed." in text
    assert "![Learning curves of pendulum](results/pendulum.png)" in text


def test_results_agree_with_each_other():
    """RESULTS.md, its sections, results.json, and `train --list` show the same returns."""
    table = json.loads((command.ROOT / "results" / "results.json").read_text())
    text = (command.ROOT / "RESULTS.md").read_text()
    lines = {found[1]: found[0] for found in re.finditer(r"^\| \[(\w+)\].*$", text, re.MULTILINE)}
    listed = {line.split()[0]: line.split()[4] for line in preset_table() if len(line.split()) == 6}
    expected = json.loads(EXPECTED.read_text())
    assert set(lines) == set(table)
    for label, row in table.items():
        cells = [cell.strip() for cell in lines[label].split("|")]
        last, best = float(cells[5].split()[0]), float(cells[6])
        mean = np.mean(row["returns"])
        assert last == pytest.approx(mean, abs=0.51 if abs(mean) >= 1000 else 0.051), label
        assert best >= last, label
        decimals = 1 if abs(mean) >= 2 else 2
        assert f"{row['env']}, {row['steps']:,} steps: {row['mean']:.{decimals}f}" in text
        if label in expected:
            assert float(listed[label]) == round(row["mean"], 1)


def test_a_missed_target_is_reported_with_its_note(monkeypatch, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "notes.yaml").write_text(
        "pendulum: |\n  A larger network was\n  tried.\n"
    )
    write_run(tmp_path, "pendulum", "pendulum", [-300.0] * 10)
    for _ in range(2):  # The note is kept when the row is replaced.
        table, text = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=1")
        assert (table["pendulum"]["verdict"], table["pendulum"]["as_good_as"]) == (
            "MISSED",
            ["CleanRL"],
        )
        assert "0 of 1 targets are reached. **Missed: [pendulum](#pendulum).**" in text
        assert "**MISSED** |" in text and "Target -172.2 (100k): **MISSED**." in text
        assert "A larger network was\ntried.\n" in text


def test_everything_can_be_written_from_results_json_alone(monkeypatch, tmp_path):
    write_run(tmp_path, "pendulum", "pendulum", [-300.0] * 10)
    first = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=1")
    (tmp_path / "RESULTS.md").unlink()
    (tmp_path / "results" / "pendulum.png").unlink()
    again = tmp_path / "again" / "results"
    again.mkdir(parents=True)
    (tmp_path / "results" / "results.json").rename(again / "results.json")
    assert write_results(monkeypatch, again.parent) == first
    assert (again / "pendulum.png").is_file()
    lines = (again / "results.json").read_text().splitlines()
    assert len(lines) < 50  # Each curve is on one line.


def test_other_settings_can_have_a_row_of_their_own(monkeypatch, tmp_path):
    settings = ["--env-backend=inline", "--objective=kl"]
    write_run(tmp_path, "pendulum", "pendulum", [-150.0] * 10)
    write_run(tmp_path, "pendulum_kl", "pendulum", [-170.0] * 10, settings=settings)
    write_results(monkeypatch, tmp_path, "pendulum", "--seeds=1")
    own = ["--label=pendulum_kl", "--target=-165", "--seeds=1", *settings]
    table, text = write_results(monkeypatch, tmp_path, "pendulum", *own)
    assert set(table) == {"pendulum", "pendulum_kl"}
    row = table["pendulum_kl"]
    assert (row["preset"], row["mean"], row["target"]["mean"], row["verdict"]) == (
        "pendulum",
        -170,
        -165,
        "MISSED",
    )
    assert "--label=pendulum_kl --target=-165 --env-backend=inline --objective=kl`" in text
    table, _ = write_results(monkeypatch, tmp_path)
    assert table["pendulum_kl"]["verdict"] == "MISSED" and table["pendulum"]["verdict"] == "reached"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pendulun"], "pendulum"),
        (["pendulum", "--learning-rat=1"], "--learning-rate"),
        (["pendulum", "--discount=7"], "discount"),
        (["pendulum", "--seed=3"], "--seeds"),
        (["pendulum", "cartpole", "--label=both"], "one preset"),
        (["--target=3"], "one preset"),
        (["pendulum", "cartpole", "--target=none"], "one preset"),
    ],
)
def test_mistakes_are_reported_before_any_training(monkeypatch, tmp_path, arguments, words):
    with pytest.raises(UsageError, match=words):
        write_results(monkeypatch, tmp_path, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_keeps_its_row_and_the_others_are_written(monkeypatch, tmp_path, capsys):
    write_run(tmp_path, "cartpole", "cartpole", [500.0] * 10)
    folder = tmp_path / folder_name("pendulum", ["--env-backend=inline"]) / "seed-0"
    folder.parent.mkdir(parents=True)
    folder.touch()
    with pytest.raises(SystemExit, match="error: some runs failed"):
        write_results(monkeypatch, tmp_path, "pendulum", "cartpole", "--seeds=1")
    error = capsys.readouterr().err
    assert "pendulum, seed 0 failed:" in error and "not a folder" in error
    assert set(json.loads((tmp_path / "results" / "results.json").read_text())) == {"cartpole"}


def test_averaged_weights_have_a_column(monkeypatch, tmp_path):
    for seed in range(5):
        returns = [-300.0, -100.0, *[-200.0] * 7, -150.0 - 10 * seed]
        write_run(tmp_path, "pendulum", "pendulum", returns, seed)
        [metrics] = tmp_path.glob(f"pendulum-*/seed-{seed}/*/metrics.jsonl")
        with metrics.open("a") as file:
            file.write(
                json.dumps({"step": 100_000, "eval/averaged_return_mean": -140.0 - seed}) + "\n"
            )
    table, text = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=5", "--at-once=1")
    assert table["pendulum"]["averaged"] == [-140, -141, -142, -143, -144]
    [line] = [line for line in text.splitlines() if line.startswith("| [pendulum]")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[4].startswith("-170.0 [-18") and cells[5:7] == ["-100.0", "-142.0"]


def test_the_weights_of_the_median_run_are_kept(monkeypatch, tmp_path):
    for seed, last in enumerate([-160.0, -150.0, -190.0]):
        write_run(tmp_path, "pendulum", "pendulum", [*[-300.0] * 9, last], seed)
    for _ in range(2):  # A row that is made again replaces it.
        table, text = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=3", "--at-once=1")
    assert table["pendulum"]["kept_run"] == "results/runs/pendulum"
    assert "visualize --logdir=results/runs/pendulum --outdir=videos`" in text
    run = RunDirectory.of(tmp_path / "results" / "runs" / "pendulum")
    assert run.checkpoint("last").name.endswith("-100000")
    with np.load(run.checkpoint("last").with_suffix(".npz")) as file:
        [name] = [name for name in file.files if name.startswith("network")]
        assert file[name] == [0.0]  # Of seed 0, whose -160 is the median.
        assert not any(name.startswith("optimizer") for name in file.files)
    assert len(run.metrics_file.read_text().splitlines()) == 10
    assert sum(path.stat().st_size for path in run.path.rglob("*")) < 50_000
