from matplotlib.figure import Figure as Plot
from matplotlib.image import imread

from results.learning_curves import plot_algorithms, plot_learning_curves
from results.published import TASKS, Figure


def test_a_plot_is_small_and_has_every_seed_and_every_published_figure(tmp_path, monkeypatch):
    plots = []
    monkeypatch.setattr(Plot, "savefig", lambda plot, *args, **kwargs: plots.append(plot))
    curves = {
        "steps": list(range(100, 5100, 100)),
        "returns": [[seed + step / 10 for step in range(50)] for seed in range(5)],
    }
    path, peers = tmp_path / "a.png", TASKS["Walker2d"]
    plot_learning_curves(path, "walker", curves, peers, Figure("own", 9, 5000))
    [panel] = plots[0].axes
    lines = [line.get_ydata() for line in panel.lines if len(line.get_ydata()) == 50]
    assert [line[0] for line in lines] == [0, 1, 2, 3, 4, 2]  # The last is their mean.
    flat = {
        line.get_ydata()[0]: line.get_linestyle()
        for line in panel.lines
        if len(line.get_ydata()) == 2
    }
    on_policy = dict.fromkeys([2288, 3479, 2971, 3494, 3589, 5100, 6000], "-")
    assert flat == {**on_policy, 4718: ":", 9: "--"}
    labels = [text.get_text() for text in panel.texts]
    assert labels == [
        "target: own 9 (5k)", "CleanRL 2,288 (1M)", "TF-Agents 2,971 (1M)", "RL-Zoo 3,479 (1M)", "Tianshou 3,494 (1M)",
        "Tianshou, maximum 3,589 (1M)", "RL-Zoo TD3 4,718 (1M)", "rl_games 5,100 (3M)", "rl_games 6,000 (10M)",
    ]  # fmt: skip
    heights = [text.get_position()[1] for text in panel.texts]
    assert all(above - below > 0.06 for below, above in zip(heights, heights[1:], strict=False))
    monkeypatch.undo()
    plot_learning_curves(path, "walker", curves, peers, None)
    assert path.stat().st_size < 60_000
    assert imread(path).shape[:2] == (360, 700)


def test_algorithms_are_drawn_over_steps_and_minutes(tmp_path, monkeypatch):
    plots = []
    monkeypatch.setattr(Plot, "savefig", lambda plot, *args, **kwargs: plots.append(plot))
    curves = {"steps": [6000, 12_000], "returns": [[1, 2], [3, 4]]}
    task = {"PPO": (curves, 1000.0), "SAC": (curves, 10.0)}
    plot_algorithms(tmp_path / "a.png", {"Pendulum-v1": task})
    over_steps, over_minutes = plots[0].axes
    assert over_steps.get_title() == "Pendulum-v1"
    assert [line.get_xdata().tolist() for line in over_steps.lines] == [[6000, 12_000]] * 6
    means = [line for line in over_minutes.lines if line.get_label() in task]
    assert [line.get_ydata().tolist() for line in means] == [[2, 3]] * 2
    assert [line.get_xdata().tolist() for line in means] == [[0.1, 0.2], [10, 20]]
