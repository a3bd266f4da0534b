import json
import shutil
import sys

import gymnasium
import numpy as np
import pytest

import agents
from agents.deployment.space_json import spaces_to_json
from agents.errors import UsageError
from agents.runs.checkpoint_files import write
from agents.runs.run_directory import RunDirectory
from results import command
from results.details import details
from results.report import page
from results.rows import compare
from results.runs import folder_name

NOTES = command.ROOT / "results" / "notes.yaml"

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
    timing = {"seconds": 20.0 + seed, "resumed": seed == 2, "versions": {"mujoco": f"3.{seed}"}}
    (folder / "result.json").write_text(json.dumps(timing))


def write_results(monkeypatch, folder, *arguments):
    monkeypatch.setattr(
        sys, "argv", ["results.py", f"--logdir={folder}", f"--outdir={folder}", *arguments]
    )
    command.main()
    rows = json.loads((folder / "results" / "results.json").read_text())
    return rows, (folder / "RESULTS.md").read_text(), read_details(folder)


def read_details(folder):
    return (folder / "results" / "details.md").read_text()


def cells_of(label, text):
    [line] = [line for line in text.splitlines() if line.startswith(f"| [{label}](#{label})")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_row_compares_our_returns_with_published_ones(monkeypatch, tmp_path):
    for seed, last in enumerate([-150.0, -160.0, -190.0]):
        write_run(tmp_path, "pendulum", "pendulum", [-1200.123, *[-300.0] * 8, last], seed)
    table, text, written = write_results(
        monkeypatch, tmp_path, "pendulum", "--seeds=3", "--at-once=1"
    )
    row = table["pendulum"]
    assert (row["env"], row["preset"], row["steps"]) == ("Pendulum-v1", "pendulum", 100_000)
    assert row["returns"] == [-150, -160, -190]
    assert row["mean"] == pytest.approx(-500 / 3)
    assert row["std"] == pytest.approx(17, abs=0.01)
    assert row["seconds"] == 20.5  # Without the third run, which was resumed.
    assert row["steps_per_second"] == 1001
    assert row["versions"] == {"mujoco": "3.2"} and "steps/s, mujoco 3.2)" in written
    assert "MuJoCo's versions: 3.2 (tasks of Gymnasium)." in written
    zoo = {"source": "RL-Zoo", "mean": -172.2, "steps": 100_000, "std": 104.2}
    assert zoo in row["published"] and row["target"] == zoo
    assert (row["verdict"], row["algorithm"]) == ("reached", "ppo")
    assert row["curves"]["steps"] == list(range(10_000, 110_000, 10_000))
    assert row["curves"]["returns"][0] == [-1200.12, *[-300] * 8, -150]
    assert row["command"] == "python scripts/results.py pendulum --seeds=3 --at-once=1"
    assert cells_of("pendulum", written) == [
        "[pendulum](#pendulum)",
        "100k",
        "3",
        "0.3",
        "-166.7 ± 17.0",
        "-172.2 (100k)",
        "-172.2 (100k)",
        "reached",
    ]
    for sentence in (
        "Pendulum-v1, 100,000 steps: -166.7 ± 17.0.",
        "Seeds: -150.0, -160.0, -190.0.",
        "Published: CleanRL -1,142 (8M) (training); RL-Zoo -172.2 ± 104.2 (100k) (last).",
        "Ours is at least that of: CleanRL, RL-Zoo.",
        "Compared with RL-Zoo -172.2 ± 104.2 (100k): reached.",
        "![Learning curves of pendulum](pendulum.png)",
    ):
        assert sentence in written.splitlines()
    assert text.count("1 of 1") == 2
    assert suite("PPO, classic control, Box2D", text) == {"rows": 1, "runs": 3, "reached": 1}


def suite(name, text):
    """Returns a suite's numbers in RESULTS.md, of rows, of runs, and of rows by verdict."""
    lines = text.splitlines()
    header, row = (
        [cell.strip() for cell in line.strip("|").split("|")][1:]
        for start in ("| algorithm, tasks ", f"| {name} ")
        for line in lines
        if line.startswith(start)
    )
    return {column: int(cell) for column, cell in zip(header, row, strict=True) if cell}


def test_the_pages_are_those_of_the_stored_runs():
    """`python scripts/results.py` on the committed files gives the committed pages."""
    rows = json.loads((command.ROOT / "results" / "results.json").read_text())
    table = {label: compare(row) for label, row in sorted(rows.items())}
    assert rows == table
    assert page(table) == (command.ROOT / "RESULTS.md").read_text()
    assert details(table, command._read_notes(NOTES)) == read_details(command.ROOT)
    images = {f"{label}.png" for label in table}
    assert images == {path.name for path in (command.ROOT / "results").glob("*.png")}


def test_a_missed_target_is_reported_with_its_note(monkeypatch, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "notes.yaml").write_text(
        "pendulum: |\n  A larger network was\n  tried.\n"
    )
    for seed in range(2):
        write_run(tmp_path, "pendulum", "pendulum", [-300.0] * 10, seed)
    for _ in range(2):  # The note is kept when the row is replaced.
        table, text, written = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=2")
        assert (
            table["pendulum"]["verdict"] == "missed" and "at least that of: CleanRL.\n" in written
        )
        assert text.count("0 of 1") == 2 and cells_of("pendulum", written)[-1] == "**missed**"
        assert "- Missed: pendulum (-300.0 of -172.2).\n" in text
        assert "A larger network was\ntried.\n" in written


def test_seeds_can_be_added_to_a_row(monkeypatch, tmp_path):
    """Long runs take several days: those of the seeds before need not be there any more."""
    monkeypatch.setattr(command, "versions", lambda env: {"mujoco": "3.3"})
    for seed, last in enumerate([-150.0, -160.0, -190.0, -170.0]):
        write_run(tmp_path, "pendulum", "pendulum", [*[-300.0] * 9, last], seed)
        timing = {"seconds": 20.0 + seed, "resumed": False, "versions": {"mujoco": "3.3"}}
        [path] = tmp_path.glob(f"pendulum-*/seed-{seed}/result.json")
        path.write_text(json.dumps(timing))
    whole = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=4")[0]["pendulum"]
    first = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=3")[0]["pendulum"]
    for seed in range(3):
        shutil.rmtree(next(tmp_path.glob(f"pendulum-*/seed-{seed}")))
    row = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=4", "--first-seed=3")[0][
        "pendulum"
    ]
    assert first["returns"] == [-150, -160, -190]
    speed = {name: first[name] for name in ("seconds", "steps_per_second")}
    assert row == {**whole, **speed}
    for arguments, words in (
        (["--seeds=5", "--first-seed=3"], "expected a row pendulum of 3 seeds, got 4 seeds"),
        (["--seeds=4", "--first-seed=4"], "--first-seed must be below --seeds=4, got 4"),
        (["--seeds=5", "--first-seed=4", "--discount=0.9"], "command .*--discount=0.9; leave out"),
    ):
        with pytest.raises(UsageError, match=words):
            write_results(monkeypatch, tmp_path, "pendulum", *arguments)
    monkeypatch.setattr(command, "versions", lambda env: {"mujoco": "4.0"})
    with pytest.raises(UsageError, match="versions .*3.3.*4.0"):
        write_results(monkeypatch, tmp_path, "pendulum", "--seeds=5", "--first-seed=4")


def test_rows_of_one_seed_are_not_counted(monkeypatch, tmp_path):
    write_run(tmp_path, "pendulum", "pendulum", [-100.0] * 10)
    _, text, written = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=1")
    assert text.count("0 of 0") == 2 and cells_of("pendulum", written)[-1] == "one seed"
    assert suite("PPO, classic control, Box2D", text) == {"rows": 1, "runs": 1, "one seed": 1}


def test_runs_of_sac_are_counted_apart(monkeypatch, tmp_path):
    for seed in range(2):
        write_run(tmp_path, "sac_pendulum", "sac_pendulum", [-100.0] * 10, seed, interval=1000)
    table, text, _ = write_results(monkeypatch, tmp_path, "sac_pendulum", "--seeds=2")
    assert table["sac_pendulum"]["algorithm"] == "sac"
    assert suite("SAC", text) == {"rows": 1, "runs": 2, "reached": 1}


def test_both_algorithms_stand_beside_published_returns_of_mujoco(monkeypatch, tmp_path):
    for seed in range(2):
        write_run(tmp_path, "hopper", "hopper", [3000.0, 3100.0], seed, interval=500_000)
    write_results(monkeypatch, tmp_path, "hopper", "--seeds=2")
    write_run(
        tmp_path,
        "sac_hopper",
        "sac",
        [3600.0, 3700.0],
        interval=500_000,
        env="Hopper-v5",
        settings=("--env-backend=inline", "--env=Hopper-v5"),
    )
    _, text, _ = write_results(
        monkeypatch, tmp_path, "sac", "--label=sac_hopper", "--env=Hopper-v5", "--seeds=1"
    )
    [line] = [line for line in text.splitlines() if line.startswith("| Hopper-v5 ")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["Hopper-v5", "3,100 ± 0 (2)", "2,609 (1M)", "3,700 (1)", "3,754 (1M) †"]


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
    for seed in range(2):
        write_run(tmp_path, "pendulum_kl", "pendulum", [-170.0] * 10, seed, settings=settings)
    write_results(monkeypatch, tmp_path, "pendulum", "--seeds=1")
    own = ["--label=pendulum_kl", "--target=-165", "--seeds=2", *settings]
    table, text, written = write_results(monkeypatch, tmp_path, "pendulum", *own)
    assert set(table) == {"pendulum", "pendulum_kl"}
    row = table["pendulum_kl"]
    assert (row["preset"], row["mean"], row["target"]["mean"], row["verdict"]) == (
        "pendulum",
        -170,
        -165,
        "missed",
    )
    assert "--label=pendulum_kl --target=-165 --env-backend=inline --objective=kl`" in written
    assert write_results(monkeypatch, tmp_path)[0] == table


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


def test_averaged_weights_are_in_the_details(monkeypatch, tmp_path):
    for seed in range(5):
        returns = [-300.0, -100.0, *[-200.0] * 7, -150.0 - 10 * seed]
        write_run(tmp_path, "pendulum", "pendulum", returns, seed)
        [metrics] = tmp_path.glob(f"pendulum-*/seed-{seed}/*/metrics.jsonl")
        with metrics.open("a") as file:
            file.write(
                json.dumps({"step": 100_000, "eval/averaged_return_mean": -140.0 - seed}) + "\n"
            )
    table, text, written = write_results(
        monkeypatch, tmp_path, "pendulum", "--seeds=5", "--at-once=1"
    )
    assert table["pendulum"]["averaged"] == [-140, -141, -142, -143, -144]
    assert cells_of("pendulum", written)[4] == "-170.0 ± 14.1"
    assert "Best: -100.0. Averaged: -142.0." in written.splitlines()


def test_the_weights_of_the_median_run_are_kept(monkeypatch, tmp_path):
    for seed, last in enumerate([-160.0, -150.0, -190.0]):
        write_run(tmp_path, "pendulum", "pendulum", [*[-300.0] * 9, last], seed)
    for _ in range(2):  # A row that is made again replaces it.
        table, text, written = write_results(
            monkeypatch, tmp_path, "pendulum", "--seeds=3", "--at-once=1"
        )
    assert table["pendulum"]["kept_run"] == "results/runs/pendulum"
    assert "visualize --logdir=results/runs/pendulum --outdir=videos`" in written
    run = RunDirectory.of(tmp_path / "results" / "runs" / "pendulum")
    assert run.checkpoint("last").name.endswith("-100000")
    with np.load(run.checkpoint("last").with_suffix(".npz")) as file:
        [name] = [name for name in file.files if name.startswith("network")]
        assert file[name] == [0.0]  # Of seed 0, whose -160 is the median.
        assert not any(name.startswith("optimizer") for name in file.files)
    assert len(run.metrics_file.read_text().splitlines()) == 10
    assert sum(path.stat().st_size for path in run.path.rglob("*")) < 50_000
