import pytest

import agents
from agents.analysis.curves import draw_curves
from agents.errors import UsageError
from agents.storage.run_directory import RunDirectory
from tests.analysis.synthetic_runs import training_rows, write_run


def test_draws_the_tags_that_occur(tmp_path):
    rows = [{"step": 1, "episode/return": 2.0}, {"step": 2, "losses/value": float("nan")}]
    for num_rows in range(3):
        draw_curves(rows[:num_rows], tmp_path / f"{num_rows}.png", "title")
        assert (tmp_path / f"{num_rows}.png").read_bytes().startswith(b"\x89PNG")


def test_the_suffix_selects_the_format(tmp_path):
    draw_curves([], tmp_path / "curves.svg", "title")
    assert "<svg" in (tmp_path / "curves.svg").read_text()


@pytest.mark.parametrize("kind", [str, RunDirectory, lambda path: path])
def test_plot_makes_a_figure_of_a_run(tmp_path, kind):
    rows = training_rows([-3, -2, -1])
    rows = [{**row, "losses/value": 0.1} for row in rows]
    rows[1]["eval/return_std"] = 1.0
    path = write_run(tmp_path / "20260131T120000-pendulum", rows).path
    figure = agents.plot(kind(path))
    assert figure.get_suptitle() == "Pendulum-v1 (20260131T120000-pendulum)"
    returns, losses = figure.axes
    assert returns.lines[0].get_xydata().tolist() == [[1000, -3], [2000, -2], [3000, -1]]
    assert losses.get_title() == "value loss"
    assert figure.image().startswith(b"\x89PNG")


def test_a_run_without_metrics_has_an_empty_plot(tmp_path):
    path = write_run(tmp_path / "run", []).path
    (path / "metrics.jsonl").unlink()
    assert not agents.plot(path).axes[0].lines


def test_plot_refuses_what_is_no_run(tmp_path):
    write_run(tmp_path / "log" / "20260131T120000-pendulum", [])
    with pytest.raises(UsageError, match="did you mean .*-pendulum"):
        agents.plot(tmp_path / "log")
