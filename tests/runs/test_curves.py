import subprocess
import sys

import numpy as np
import pytest

import agents
from agents.runs.comparison import compare_runs, read_scores
from agents.runs.curves import COLORS, plot_comparison, plot_curves
from agents.runs.run_directory import RunDirectory
from tests.runs.synthetic_runs import learning_rows, training_rows, write_run

METRIC = "eval/return_mean"
DISPLAY = """
import sys
from IPython.core.formatters import DisplayFormatter
from agents.runs.curves import InlineFigure

def check():
    figure = InlineFigure()
    figure.add_subplot()
    data, _ = DisplayFormatter().format(figure)
    assert data["image/png"].startswith(b"\\x89PNG"), data

check()
assert "matplotlib.pyplot" not in sys.modules
import matplotlib.pyplot
check()
"""


def test_draws_the_tags_that_occur():
    rows = [{"step": 1, "episode/return": 2.0}, {"step": 2, "losses/value": float("nan")}]
    for num_rows in range(3):
        assert plot_curves(rows[:num_rows], "title").image().startswith(b"\x89PNG")
    assert b"<svg" in plot_curves(rows, "title").image(".svg")


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
    assert losses.get_title() == "value: loss of the value function"
    assert figure.image().startswith(b"\x89PNG")


def test_a_run_without_metrics_has_an_empty_plot(tmp_path):
    path = write_run(tmp_path / "run", []).path
    (path / "metrics.jsonl").unlink()
    assert not agents.plot(path).axes[0].lines


def test_notebooks_show_figures_without_pyplot_and_with_it():
    subprocess.run([sys.executable, "-c", DISPLAY], check=True)


def plotted(folder, settings, axis="steps", num_scores=5):
    runs = []
    for index, changed in enumerate(settings):
        rows = learning_rows(index, num_scores=num_scores)
        runs.append(read_scores(write_run(folder / str(index), rows, **changed), METRIC))
    return plot_comparison(compare_runs(runs, axis), METRIC)


def legends(figure):
    return {
        panel.get_title(): [text.get_text() for text in panel.get_legend().get_texts()]
        for panel in figure.axes
    }


def test_each_environment_has_a_panel_with_equal_colors_for_equal_settings(tmp_path):
    settings = [
        {"env": env, "learning_rate": rate, "seed": seed}
        for env in ("CartPole-v1", "Pendulum-v1")
        for rate in (1e-3, 1e-4)
        for seed in range(2)
    ]
    figure = plotted(tmp_path, settings[1:])
    assert legends(figure) == {
        "CartPole-v1": [
            "learning_rate=0.0001 (2 seeds)",
            "learning_rate=0.001 (1 seed, no interval)",
        ],
        "Pendulum-v1": ["learning_rate=0.0001 (2 seeds)", "learning_rate=0.001 (2 seeds)"],
    }
    colors = [
        [handle.get_color() for handle in panel.get_legend().legend_handles]
        for panel in figure.axes
    ]
    assert colors == [list(COLORS[:2])] * 2


@pytest.mark.parametrize("num_groups", [2, 20])
def test_legends_cover_no_curve_and_nothing_is_cut_off(tmp_path, num_groups):
    settings = [{"learning_rate": 1e-4 * (k + 1), "epochs": k + 1} for k in range(num_groups)]
    figure = plotted(tmp_path, settings)
    figure.draw_without_rendering()
    [panel] = figure.axes
    legend = panel.get_legend().get_window_extent()
    assert legend.y1 < panel.xaxis.get_tightbbox().y0
    assert legend.y0 >= 0 and legend.x1 <= figure.bbox.x1
    assert panel.bbox.height > 200  # Pixels, of 100 per inch.
    looks = {(line.get_color(), line.get_marker()) for line in panel.lines[1::2]}
    assert len(looks) == num_groups


def test_where_seeds_are_missing_the_line_is_dotted(tmp_path):
    runs = []
    for seed, num_scores in enumerate((4, 2)):
        run = write_run(tmp_path / str(seed), learning_rows(seed, num_scores=num_scores), seed=seed)
        runs.append(read_scores(run, METRIC))
    figure = plot_comparison(compare_runs(runs), METRIC)
    assert legends(figure) == {"Pendulum-v1": ["all runs (2 seeds; dotted: fewer)"]}
    dotted, solid = figure.axes[0].lines
    assert (dotted.get_linestyle(), solid.get_linestyle()) == (":", "-")
    np.testing.assert_array_equal(np.isnan(solid.get_ydata()), [False, False, True, True])


def test_dollars_are_no_mathematics(tmp_path):
    settings = [{"env_kwargs": {"price": price}} for price in ("$\\frac$", "1$")]
    figure = plotted(tmp_path, settings, axis="minutes")
    assert figure.axes[0].get_xlabel() == "minutes of training"
    assert figure.axes[0].get_ylabel() == METRIC
    assert figure.image().startswith(b"\x89PNG")
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == [
        r'env_kwargs={"price": "\$\\frac\$"} (1 seed, no interval)',
        r'env_kwargs={"price": "1\$"} (1 seed, no interval)',
    ]
