import io

import matplotlib.image
import numpy as np

from agents.sweeps import picture
from agents.sweeps.picture import draw_sweep
from agents.sweeps.search_space import Choices, Range, SearchSpace
from agents.sweeps.trial_result import TrialResult

SPACE = SearchSpace(
    {
        "learning_rate": Range(low=1e-5, high=1e-2, log=True),
        "initial_log_std": Range(low=-2, high=0),
        "minibatch_size": Choices(choices=(32, 64)),
        "activation": Choices(choices=("tanh", "relu")),
    }
)


def trial(number, state, score, minibatch_size=32):
    settings = {
        "learning_rate": 10 ** (-2 - number % 3), "initial_log_std": -number / 10,
        "minibatch_size": minibatch_size, "activation": "relu",
    }  # fmt: skip
    return TrialResult(number, state, score, 1000, settings)


RESULTS = [
    trial(0, "complete", -100.0), trial(1, "pruned", -5000.0), trial(2, "failed", None),
    trial(3, "complete", -50.0, minibatch_size=60), trial(4, "complete", -70.0), trial(5, "running", None),
]  # fmt: skip


def panels(monkeypatch, *arguments):
    """The axes that are drawn."""
    figures = []

    class Figure(picture.InlineFigure):
        def savefig(self, *arguments, **options):
            figures.append(self)
            super().savefig(*arguments, **options)

    monkeypatch.setattr(picture, "InlineFigure", Figure)
    draw_sweep(*arguments)
    return figures[0].axes


def test_the_image_is_a_png():
    image = matplotlib.image.imread(io.BytesIO(draw_sweep(RESULTS, SPACE, {}, "a sweep")))
    assert image.ndim == 3 and np.ptp(image) > 0.5


def test_the_history_has_all_scores_and_the_best_so_far(monkeypatch):
    history, *_ = panels(monkeypatch, RESULTS, SPACE, {}, "a sweep")
    complete, pruned = history.collections
    assert complete.get_offsets().tolist() == [[0, -100], [3, -50], [4, -70]]
    assert pruned.get_offsets().tolist() == [[1, -5000]]
    [best] = history.lines
    assert best.get_ydata().tolist() == [-100, -50, -50]
    low, high = history.get_ylim()  # Not down to the pruned one.
    assert -200 < low < -100 and -50 < high < 0


def test_settings_have_panels_by_importance(monkeypatch):
    importances = {"minibatch_size": 0.7, "learning_rate": 0.2, "activation": 0.1}
    _, bars, *others = panels(monkeypatch, RESULTS, SPACE, importances, "a sweep")
    assert [label.get_text() for label in bars.get_yticklabels()] == [
        "activation", "learning_rate", "minibatch_size"
    ]  # fmt: skip
    titles = [panel.get_title() for panel in others]
    assert titles == ["minibatch_size", "learning_rate", "activation", "initial_log_std"]
    sizes, rates = others[:2]
    assert [label.get_text() for label in sizes.get_xticklabels()] == ["32", "64", "60"]
    assert sizes.collections[0].get_offsets().tolist() == [[0, -100], [2, -50], [0, -70]]
    assert rates.get_xscale() == "log"


def test_a_sweep_without_trials_has_a_picture():
    assert draw_sweep([], SPACE, {}, "a sweep").startswith(b"\x89PNG")
