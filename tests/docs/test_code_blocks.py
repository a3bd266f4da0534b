"""Runs what the documentation shows: Python blocks, commands, and YAML.

The blocks of a page share a folder, a namespace and what they import. A block with a title is the
file of that name. Trainings are short, see `commands`. Only the slow test runs them on all pages;
the other one runs those of README and the tutorial, and describes the others (`--dry-run`).
"""

import ast
import contextlib
import importlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import gymnasium
import numpy as np
import pytest
from ruamel.yaml import YAML

import agents
from agents.deployment.space_json import spaces_to_json
from agents.graph import tensor_registration as registration
from agents.policies.policy import Policy
from agents.runs.checkpoint import Checkpoints
from agents.runs.run_directory import RunDirectory
from agents.scripts.main import COMMANDS
from agents.settings.config import Config
from agents.settings.config_file import EXTENDS, load_config
from agents.settings.parser import option_name
from tests.docs import commands
from tests.docs.pages import LANGUAGES, PAGES, ROOT, blocks, command_lines

SERVICE = "docs/guides/deployment.md"
TRAINED = ("README.md", "docs/tutorial.md")  # Pages whose trainings run in the default suite.
RUN = "logdir/20260131T120000-pendulum"
SWEEP = "logdir/20260131T120000-sweep-pendulum"
IMPORTS = ast.Import | ast.ImportFrom
MISSING = "my_module:"  # Any module of the reader's.
with_code = pytest.mark.parametrize(
    "name", [name for name, path in PAGES.items() if blocks(path.read_text())]
)


def save_run(path):
    """Writes the run that pages show: of the preset pendulum, with initial weights."""
    run, config = RunDirectory(path), load_config("pendulum")
    env = gymnasium.make("Pendulum-v1")
    spaces = env.observation_space, env.action_space
    run.prepare(config)
    record = {"spaces": spaces_to_json(*spaces)}
    checkpoints = Checkpoints(run.checkpoints, Policy(*spaces, config).variables(), record)
    checkpoints.save(20_000)
    checkpoints.save(20_000, best=True)
    scores = {"eval/return_mean": -160.0, "eval/return_std": 90.0, "eval/length_mean": 200.0}
    run.metrics_file.write_text(json.dumps({"step": 20_000, "wall_time": 9.0, **scores}) + "\n")


class Page:
    """A page whose blocks run in a folder of its own."""

    def __init__(self, folder, trains):
        self.folder, self.trains = folder, trains
        self.namespace, self.modules = {"__name__": "page"}, []
        self.services = contextlib.ExitStack()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])

    def run(self, block):
        """Runs a block, or raises what it raises."""
        text = block.text.replace("8000", self.port)
        if block.title:
            (self.folder / block.title).write_text(text)
        if block.language == "yaml":
            self._load(block)
        elif block.language == "python" and block.title:
            if "sys.argv" not in text:  # A module, and no program.
                self.modules.append(block.title.removesuffix(".py"))
                importlib.import_module(self.modules[-1])
        elif block.language == "python":
            tree = ast.parse(text)
            if "agents.train(" in text and not self.trains:
                tree.body = [node for node in tree.body if isinstance(node, IMPORTS)]
            exec(compile(tree, f"block at line {block.line}", "exec"), self.namespace)
        elif block.language in ("sh", "console"):
            for line in command_lines(block._replace(text=text)):
                self._run_line(line)
            os.chdir(self.folder)

    def _load(self, block):
        values = YAML(typ="safe", pure=True).load(block.text)
        if block.title and (EXTENDS in values or "env" in values):
            load_config(self.folder / block.title)

    def _run_line(self, line):
        command = commands.find_command(line)
        words = line.split()
        if words[0] == "cd":
            os.chdir(ROOT / words[1])
            sys.path.insert(0, os.getcwd())
        elif words[0] == "python" and (program := self._program(words[1])).is_file():
            self._serve([program, *words[2:]])
        elif command:
            commands.parse(command)
            if MISSING not in line:
                commands.run(command, self.modules, self.trains)

    def _program(self, path):
        return (ROOT if path.startswith("examples/") else self.folder) / path

    def _serve(self, arguments):
        """Starts a program in which importing the library raises an error."""
        (self.folder / "without").mkdir()
        (self.folder / "without" / "agents.py").write_text("raise ImportError('not installed')\n")
        service = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={"PYTHONPATH": str(self.folder / "without")},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.services.enter_context(service)  # Waits for its end, after it was killed.
        self.services.callback(service.kill)
        assert service.stdout.readline(), "the service did not start"


@pytest.fixture
def make_page(tmp_path, monkeypatch):
    """Creates a page to run blocks of, with the run and the sweep that pages show."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(registration, "_specs", dict(registration._specs))
    # The name is there from now on, for `monkeypatch` to put it back.
    monkeypatch.setitem(vars(agents), "load_config", commands.short_config)
    save_run(tmp_path / RUN)
    save_sweep(tmp_path / SWEEP)
    modules, envs = set(sys.modules), set(gymnasium.registry)
    with contextlib.ExitStack() as services:

        def make(trains):
            page = Page(tmp_path, trains)
            services.enter_context(page.services)
            return page

        yield make
    for name in set(gymnasium.registry) - envs:
        del gymnasium.registry[name]
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def save_sweep(path):
    """What `--config=.../trial-0007/config.yaml` needs of a sweep."""
    RunDirectory(path / "trial-0007").prepare(load_config("pendulum"))


def run_blocks(page, name):
    for block in blocks(PAGES[name].read_text()):
        if not block.exemption:
            with contextlib.redirect_stdout(io.StringIO()):
                page.run(block)


@with_code
def test_blocks_run(name, make_page):
    if name != SERVICE:
        run_blocks(make_page(trains=name in TRAINED), name)


@pytest.mark.slow
@with_code
def test_blocks_run_with_all_trainings(name, make_page):
    if name not in TRAINED:
        run_blocks(make_page(trains=True), name)


def test_the_http_service_acts_as_the_policy_of_the_run(make_page):
    page = make_page(trains=False)
    run_blocks(page, SERVICE)
    observ = np.array([[1, 0, 0], [0, 1, 0.5]], np.float32)
    expected = agents.load_policy(RUN, checkpoint="best")(observ)
    np.testing.assert_allclose(page.namespace["action"], expected[:1], rtol=1e-5)
    url = f"http://127.0.0.1:{page.port}"
    body = json.dumps({"observ": observ.tolist()}).encode()
    with urllib.request.urlopen(url, body) as response:
        np.testing.assert_allclose(json.load(response)["action"], expected, rtol=1e-5)
    refused = {
        b"": "Expecting value",
        b"[[1, 0, 0]]": "list indices",
        b"{}": "the request has no 'observ'",
        b'{"observ": [[1, 0, NaN]]}': "expected finite numbers of float32",
        b'{"observ": [[1, 0, 1e39]]}': "expected finite numbers of float32",
        b'{"observ": [["left", 0, 0]]}': "could not convert",
        b'{"observ": [1, 0, 0]}': "Invalid rank for input: observ",
        b'{"observ": [[1, 0]]}': "Got: 2 Expected: 3",
    }
    for body, reason in refused.items():
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(url, body)
        assert caught.value.code == 400, body
        assert reason in json.load(caught.value)["error"], body


def test_blocks_have_a_language_and_exemptions_a_reason():
    for name, path in PAGES.items():
        for block in blocks(path.read_text()):
            assert block.language in LANGUAGES, f"{name}:{block.line}"


OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
# Pages that name options of other libraries.
ABOUT_OTHERS = {"docs/compare.md", "docs/guides/coming-from.md"}
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def test_options_in_the_text_are_options_of_a_command():
    known = {"--help", "--version", "--serve", "--setting", *map(option_name, Config.model_fields)}
    for command in COMMANDS:
        model, _ = commands.options_of(command)
        known |= set(map(option_name, model.model_fields if model else ()))
    for name, path in PAGES.items():
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for code in INLINE.findall(text):
            if name in ABOUT_OTHERS and not code.startswith("agents "):
                continue
            if code.startswith("unknown setting"):  # A message about one that does not exist.
                continue
            for option in OPTION.findall(code):
                assert option in known, f"{name} mentions {option}: `{code}`"
