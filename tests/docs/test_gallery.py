"""The gallery shows every run of results/runs, and each policy loads and acts."""

import pytest

import agents
from agents.deployment.trained_policy import run_spaces
from agents.runs.run_directory import RunDirectory
from scripts import gallery


def test_the_page_is_what_the_script_writes():
    assert gallery.PAGE.read_text() == gallery.page(), "run `python scripts/gallery.py --page`"


def test_every_run_has_a_small_animation_and_no_other_is_left():
    images = {path.stem: path.stat().st_size for path in gallery.IMAGES.glob("*.webp")}
    assert sorted(images) == gallery.run_names()
    assert max(images.values()) <= gallery.MAX_BYTES


@pytest.mark.parametrize("name", gallery.run_names())
def test_the_policy_acts(name):
    observation_space, action_space = run_spaces(RunDirectory(gallery.RUNS / name))
    action = agents.load_policy(gallery.RUNS / name)(observation_space.sample())
    assert action_space.contains(action)
