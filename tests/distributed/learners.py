"""Learners in processes of their own that run a function of tests together."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from agents.distributed.cluster import Cluster
from agents.distributed.shared_exchange import shared_bytes
from agents.workers.shared_block import create_anonymous_file

ROOT = Path(__file__).parents[2]

CODE = """
import json, sys
from agents.distributed.cluster import Cluster
from agents.scripts.learner import make_reducer
from agents.settings.config_file import load_config
task = json.load(sys.stdin)
config = load_config("pendulum", **task["settings"])
reducer = make_reducer(Cluster(**task["cluster"]), config)
module, _, name = task["function"].rpartition(".")
function = getattr(__import__(module, fromlist=[name]), name)
print(json.dumps(function(reducer, config)), flush=True)
"""


def free_addresses(count):
    """Addresses of the loopback interface that no program listens at."""
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in made]


def run_together(function, num_learners, kind="shared", **settings):
    """Calls `function(reducer, config)` in several processes; returns what each returns, as JSON.

    Args:
      function: A function of a module of tests.
      num_learners: Number of processes.
      kind: "shared" for shared memory, "collective" for TensorFlow's collective operations.
      **settings: Of the configuration.
    """
    with ExitStack() as stack:
        memory, addresses = None, []
        if kind == "shared":
            memory = create_anonymous_file(shared_bytes(num_learners))
            stack.callback(os.close, memory)
        else:
            addresses = free_addresses(num_learners)
        processes = []
        for rank in range(num_learners):
            process = subprocess.Popen(
                [sys.executable, "-c", CODE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[memory] if kind == "shared" else [],
                cwd=ROOT,
                text=True,
            )
            stack.callback(process.stdout.close)
            stack.callback(process.wait)
            stack.callback(process.kill)
            task = {
                "cluster": Cluster(rank, num_learners, addresses, memory)._asdict(),
                "function": f"{function.__module__}.{function.__name__}",
                "settings": settings,
            }
            process.stdin.write(json.dumps(task))
            process.stdin.close()
            processes.append(process)
        outputs = [process.stdout.read() for process in processes]
        assert [process.wait(30) for process in processes] == [0] * num_learners
    return [json.loads(output) for output in outputs]
