"""The notebook runs from top to bottom."""

import ast

import gymnasium
import nbformat
import pytest
import tensorflow as tf

import agents
from agents.settings.config_file import load_config
from tests.docs.commands import SMALL
from tests.docs.notebook import QUICKSTART, execute, is_stored, outputs, shown


def test_cells_are_python_and_outputs_are_small():
    notebook = nbformat.read(QUICKSTART, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)
            assert cell.execution_count
    assert all(map(is_stored, outputs(notebook)))
    assert "image/png" in shown(notebook)[1]
    assert QUICKSTART.stat().st_size < 500_000


def tiny_config(name, **settings):
    tiny = {**SMALL, "eval_interval": 200, "max_episode_steps": 20, "layers": (4,)}
    return load_config(name, **{**settings, **tiny})


def test_cells_run_with_short_trainings_in_this_process(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # The name is there from now on, for `monkeypatch` to put it back.
    monkeypatch.setitem(vars(agents), "load_config", tiny_config)
    namespace = {"__name__": "notebook"}
    tf.config.run_functions_eagerly(True)  # Nothing is compiled.
    try:
        for cell in nbformat.read(QUICKSTART, as_version=4).cells:
            if cell.cell_type == "code":
                exec(cell.source, namespace)
    finally:
        tf.config.run_functions_eagerly(False)
        gymnasium.registry.pop("Middle-v0", None)
    assert "best so far, at step 200" in capsys.readouterr().out
    assert list(tmp_path.glob("logdir/*-Pendulum-v1/metrics.jsonl"))
    assert list(tmp_path.glob("videos/episode-*.mp4"))


@pytest.mark.slow
def test_whole_run(tmp_path):
    text, kinds = shown(execute(tmp_path))
    assert {"image/png", "text/html"} <= kinds  # The curves and the video.
    returned = next(line for line in text.splitlines() if line.startswith("return of the episode"))
    assert float(returned.rpartition(" ")[2]) > -500
