"""Worker processes without what only Linux and x86-64 have, as far as that can be simulated here."""

import os
import subprocess
import sys

import agents

# Read by this process and by every worker when it starts.
SITE = """
import os, platform, signal, socket, subprocess, sys, tempfile

platform.machine = lambda: "arm64"
del os.memfd_create, os.sched_yield, os.sched_getaffinity
sys.platform = "darwin"
"""
CODE = """
import sys
import agents, gymnasium

def make():
    from agents.workers.channel import ORDERED_WRITES
    assert sys.platform == "darwin" and not ORDERED_WRITES
    return gymnasium.make("Pendulum-v1")

envs = agents.make_batch_env([make] * 4, 2)
envs.reset(seed=0)
envs.action_space.seed(0)
print(sum(envs.step(envs.action_space.sample())[1].sum() for _ in range(300)))
envs.close()
"""


def run(code, *path):
    root = os.path.dirname(os.path.dirname(agents.__file__))
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), root])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_batches_step_the_same(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SITE)
    here = CODE.replace('assert sys.platform == "darwin" and not ORDERED_WRITES', "")
    assert run(CODE, tmp_path) == run(here)
