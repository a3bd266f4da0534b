"""What TensorBoard shows of a fresh run, seen in a headless browser."""

import contextlib
import importlib.util
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 90.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("chromedriver"), reason="needs chromium-driver"),
]

# A text that only data brings, and an element that draws it.
PAGES = {
    "timeseries": (["episode", "losses", "perf", "Smoothed"], "canvas"),
    "distributions": (["rollout/observ", "rollout/advantage"], "path"),
    "histograms": (["rollout/observ", "rollout/advantage"], "path"),
    "images": (["eval/episode"], "img"),
    "hparams": (["learning_rate", "episode/return"], "td, .cell, .td"),
    "text": (["configuration", "minibatch_size", "agents.scripts.train"], "table"),
    "graphs": (["normalize_observ", "policy_output"], "ellipse"),
}


@pytest.fixture(scope="module")
def screenshots():
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "scripts/screenshots.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert set(module.PAGES) == set(PAGES)
    return module


@pytest.fixture(scope="module")
def browser(screenshots, tmp_path_factory):
    """A browser that shows the TensorBoard of a run of two iterations."""
    logdir = tmp_path_factory.mktemp("logdir")
    command = [sys.executable, "-m", "agents.scripts.train", f"--logdir={logdir}"]
    options = "--env-backend=inline --steps=4096 --eval-interval=2048 --log-interval=2048".split()
    subprocess.run([*command, "--config=pendulum", *options], check=True, cwd=ROOT)
    with (
        screenshots.tensorboard(logdir) as address,
        contextlib.closing(screenshots.Browser(address)) as browser,
    ):
        yield browser


def shown(browser, page, texts, element):
    """Text of a page that has all `texts` and an `element`, as soon as there are any data."""
    deadline = time.monotonic() + SECONDS
    missing, count = texts, 0
    while (missing or not count) and time.monotonic() < deadline:
        browser.show(page)  # TensorBoard may have read no events yet, and does not look again.
        patience = time.monotonic() + 15
        while (missing or not count) and time.monotonic() < patience:
            time.sleep(0.5)
            text = browser.text()
            missing, count = [each for each in texts if each not in text], browser.count(element)
    assert not missing and count
    return text


@pytest.mark.parametrize("page", PAGES)
def test_the_page_shows_data(browser, page):
    shown(browser, page, *PAGES[page])


def test_returns_come_first_and_rollouts_before_gradients(browser):
    groups = ["episode", "losses", "perf", "rollout"]
    lines = shown(browser, "timeseries", groups, "path").splitlines()
    assert [lines.index(group) for group in groups] == sorted(map(lines.index, groups))
    text = shown(browser, "distributions", ["rollout", "weight_gradients"], "path")
    assert text.index("rollout") < text.index("weight_gradients")
