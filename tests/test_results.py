import json
import subprocess
import sys
from pathlib import Path

import learning_curves
import pytest
from learning_curves import draw_learning_curves, short_steps
from matplotlib.image import imread
from published import SOURCES, TASKS, Figure, published

import results
from agents.config import load_config
from agents.runs.run_directory import RunDirectory
from agents.tools.errors import UsageError

SCRIPT = Path(__file__).parent.parent / "scripts" / "results.py"


def pretend_to_train(logdir, label, preset, returns, seed=0, interval=10_000, settings=("--env-backend=inline",)):
    """Leaves behind what a run does that has ended, with evaluations every `interval` steps."""
    folder = logdir / results.folder_name(label, settings) / f"seed-{seed}"
    run = RunDirectory(folder / f"20260131T12000{seed}-{preset}")
    run.prepare(load_config(preset))
    rows = [{"step": 5_000, "perf/steps_per_second": 1000.0 + seed}]
    rows += [{"step": interval * (1 + index), "eval/return_mean": value} for index, value in enumerate(returns)]
    run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "result.json").write_text(json.dumps({"seconds": 20.0 + seed, "resumed": seed == 2}))


def write_results(monkeypatch, folder, *arguments):
    monkeypatch.setattr(sys, "argv", ["results.py", f"--logdir={folder}", f"--outdir={folder}", *arguments])
    results.main()
    return json.loads((folder / "results.json").read_text()), (folder / "RESULTS.md").read_text()


def test_a_row_tells_our_figure_beside_those_of_others(monkeypatch, tmp_path):
    for seed, last in enumerate([-150.0, -160.0, -190.0]):
        pretend_to_train(tmp_path, "pendulum", "pendulum", [-1200.123, *[-300.0] * 8, last], seed)
    table, text = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=3", "--at-once=1")
    row = table["pendulum"]
    assert (row["env"], row["preset"], row["steps"]) == ("Pendulum-v1", "pendulum", 100_000)
    assert row["returns"] == [-150, -160, -190]
    assert row["mean"] == pytest.approx(-500 / 3)
    assert row["std"] == pytest.approx(17, abs=0.01)
    assert row["seconds"] == 20.5  # The third run was stopped meanwhile.
    assert row["steps_per_second"] == 1001
    assert row["published"]["RL-Zoo"] == {"mean": -172.2, "steps": 100_000, "std": 104.2}
    assert row["target"]["mean"] == -172.2 and row["verdict"] == "reached"
    assert row["curves"]["steps"] == list(range(10_000, 110_000, 10_000))
    assert row["curves"]["returns"][0] == [-1200.12, *[-300] * 8, -150]
    assert row["command"] == "python scripts/results.py pendulum --seeds=3 --at-once=1"
    [line] = [line for line in text.splitlines() if line.startswith("| [pendulum]")]
    for cell in (
        "100,000",
        "-166.7 ± 17.0",
        "-190.0",
        "-150.0",
        "-172.2 (100k)",
        "reached | CleanRL, RL-Zoo",
        "-1142 (8M)",
    ):
        assert f"| {cell} |" in line
    assert "1 of 1 targets are reached. None is missed." in text
    assert "![Learning curves of pendulum](results/pendulum.png)" in text


def test_a_missed_target_is_told_plainly_with_what_was_tried(monkeypatch, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "notes.yaml").write_text("pendulum: |\n  A larger network was\n  tried.\n")
    pretend_to_train(tmp_path, "pendulum", "pendulum", [-300.0] * 10)
    for _ in range(2):  # It stays when the row is replaced.
        table, text = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=1")
        assert (table["pendulum"]["verdict"], table["pendulum"]["as_good_as"]) == ("MISSED", ["CleanRL"])
        assert "0 of 1 targets are reached. **Missed: [pendulum](#pendulum).**" in text
        assert "**MISSED** |" in text
        assert "A larger network was\ntried.\n" in text


def test_everything_can_be_written_again_from_results_json_alone(monkeypatch, tmp_path):
    pretend_to_train(tmp_path, "pendulum", "pendulum", [-300.0] * 10)
    first = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=1")
    (tmp_path / "RESULTS.md").unlink()
    (tmp_path / "results" / "pendulum.png").unlink()
    again = tmp_path / "again"
    again.mkdir()
    (tmp_path / "results.json").rename(again / "results.json")
    assert write_results(monkeypatch, again) == first
    assert (again / "results" / "pendulum.png").is_file()
    lines = (again / "results.json").read_text().splitlines()
    assert len(lines) < 50  # Each curve is one line.


def test_a_row_of_its_own_for_other_settings(monkeypatch, tmp_path):
    settings = ["--env-backend=inline", "--objective=kl"]
    pretend_to_train(tmp_path, "pendulum", "pendulum", [-150.0] * 10)
    pretend_to_train(tmp_path, "pendulum_kl", "pendulum", [-170.0] * 10, settings=settings)
    write_results(monkeypatch, tmp_path, "pendulum", "--seeds=1")
    own = ["--label=pendulum_kl", "--target=-165", "--seeds=1", *settings]
    table, text = write_results(monkeypatch, tmp_path, "pendulum", *own)
    assert set(table) == {"pendulum", "pendulum_kl"}
    row = table["pendulum_kl"]
    assert (row["preset"], row["mean"], row["target"]["mean"], row["verdict"]) == ("pendulum", -170, -165, "MISSED")
    assert "--label=pendulum_kl --target=-165 --env-backend=inline --objective=kl`" in text
    table, _ = write_results(monkeypatch, tmp_path)
    assert table["pendulum_kl"]["verdict"] == "MISSED" and table["pendulum"]["verdict"] == "reached"


def test_a_row_that_is_only_compared_with_has_no_target(monkeypatch, tmp_path):
    pretend_to_train(tmp_path, "blind", "pendulum", [-1000.0] * 10)
    table, text = write_results(monkeypatch, tmp_path, "pendulum", "--seeds=1", "--label=blind", "--target=none")
    assert (table["blind"]["target"], table["blind"]["verdict"]) == (None, "")
    assert "0 of 0 targets are reached. None is missed." in text
    assert "--label=blind --target=none`" in text


def test_rows_without_curves_are_kept(monkeypatch, tmp_path):
    old = {"env": "Acrobot-v1", "steps": 500_000, "returns": [-80.0, -70.0], "mean": -75.0, "std": 5.0, "seconds": 96.0}
    old |= {"steps_per_second": 7592.8, "command": "python scripts/results.py acrobot", "published": {"gone": 1}}
    (tmp_path / "results.json").write_text(json.dumps({"acrobot": old}))
    table, text = write_results(monkeypatch, tmp_path)
    assert table["acrobot"]["verdict"] == "MISSED, with 500k steps"
    assert set(table["acrobot"]["published"]) == {"CleanRL", "RL-Zoo"}
    assert "acrobot.png" not in text


@pytest.mark.parametrize(
    ("mean", "steps", "expected"),
    [
        (100, 1_000_000, "reached"),
        (100, 1_015_808, "reached"),
        (100, 1_500_000, "reached, but with 1.5M steps"),
        (99.9, 1_000_000, "MISSED"),
        (99.9, 100_352, "MISSED, with 100k steps"),
    ],
)
def test_verdicts(mean, steps, expected):
    assert results.verdict(mean, steps, Figure(100, 1_000_000)) == expected
    assert results.verdict(mean, steps, None) == ""


def test_a_learning_curve_has_at_least_ten_points():
    assert "--eval-interval=10000" in results.complete("cheetah", ["--steps=100000"])
    assert not any("eval-interval" in setting for setting in results.complete("pendulum", []))
    assert results.complete("cheetah", ["--eval-interval=500000", "--env-backend=process"]) == [
        "--eval-interval=500000", "--env-backend=process"
    ]  # fmt: skip


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
def test_mistakes_are_told_before_any_training(monkeypatch, tmp_path, arguments, words):
    with pytest.raises(UsageError, match=words):
        write_results(monkeypatch, tmp_path, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_leaves_its_row_as_it_was_and_the_others_are_written(tmp_path):
    pretend_to_train(tmp_path, "cartpole", "cartpole", [500.0] * 10)
    folder = tmp_path / results.folder_name("pendulum", ["--env-backend=inline"]) / "seed-0"
    folder.parent.mkdir(parents=True)
    folder.touch()
    command = [sys.executable, SCRIPT, "pendulum", "cartpole", "--seeds=1", f"--logdir={tmp_path}"]
    ended = subprocess.run([*command, f"--outdir={tmp_path}"], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "pendulum, seed 0 failed:" in ended.stderr and "not a folder" in ended.stderr
    assert set(json.loads((tmp_path / "results.json").read_text())) == {"cartpole"}


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("HalfCheetah-v5", "HalfCheetah"),
        ("ale_py:ALE/Pong-v5", "Pong"),
        ("BreakoutNoFrameskip-v4", "Breakout"),
        ("HalfCheetahBulletEnv-v0", "HalfCheetahBulletEnv"),
        ("MountainCarContinuous-v0", "MountainCarContinuous"),
    ],
)
def test_published_figures_are_found_by_the_environment(env, name):
    assert published(env) is TASKS[name]
    assert not published("MyOwn-v0").figures


def test_targets_are_not_below_any_smaller_figure_that_was_published():
    for name, task in TASKS.items():
        assert set(task.figures) <= set(SOURCES)
        best = max(figure.mean for figure in task.figures.values())
        # Rounded, as for the walker, and but for what is out of reach here: 2 million steps of Pong, and the swimmer.
        assert name in ("Pong", "Swimmer") or task.target.mean == pytest.approx(best, rel=0.03)


def test_a_picture_is_small_and_shows_every_seed_and_every_published_figure(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(learning_curves.Figure, "savefig", lambda figure, *args, **kwargs: drawn.append(figure))
    steps, returns = list(range(100, 5100, 100)), [[seed + step / 10 for step in range(50)] for seed in range(5)]
    draw_learning_curves(tmp_path / "a.png", "walker", steps, returns, TASKS["Walker2d"].figures, Figure(9, 5000))
    [panel] = drawn[0].axes
    curves = [line.get_ydata() for line in panel.lines if len(line.get_ydata()) == 50]
    assert [curve[0] for curve in curves] == [0, 1, 2, 3, 4, 2]  # And their mean.
    flat = {line.get_ydata()[0]: line.get_linestyle() for line in panel.lines if len(line.get_ydata()) == 2}
    assert flat == {2288: "-", 3479: "-", 2971: "-", 3589: "-", 9: "--"}
    labels = [text.get_text() for text in panel.texts]
    assert labels == [
        "target 9 (5k)", "CleanRL 2,288 (1M)", "TF-Agents 2,971 (1M)", "RL-Zoo 3,479 (1M)", "Tianshou 3,589 (1M)"
    ]  # fmt: skip
    heights = [text.get_position()[1] for text in panel.texts]
    assert all(above - below > 0.06 for below, above in zip(heights, heights[1:], strict=False))
    monkeypatch.undo()
    draw_learning_curves(tmp_path / "a.png", "walker", steps, returns, TASKS["Walker2d"].figures, None)
    assert (tmp_path / "a.png").stat().st_size < 60_000
    assert imread(tmp_path / "a.png").shape[:2] == (360, 700)


def test_numbers_of_steps_in_few_letters():
    assert [short_steps(steps) for steps in (500, 20_000, 100_352, 1_000_000, 1_500_000)] == [
        "500", "20k", "100k", "1M", "1.5M"
    ]  # fmt: skip
