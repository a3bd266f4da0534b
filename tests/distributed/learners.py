"""Learners in processes of their own that run a function of tests together."""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

from agents.distributed.cluster import Address, listen
from agents.distributed.shared_exchange import shared_bytes
from agents.shared_memory.shared_block import create_anonymous_file

ROOT = Path(__file__).parents[2]

CODE = """
import json, sys
from agents.distributed.cluster import Address
from agents.distributed.group import Group
from agents.distributed.rendezvous import Place
from agents.settings.config_file import load_config
from agents.runtime.tensorflow_setup import start_tensorflow
task = json.load(sys.stdin)
start_tensorflow(1)
given = task["place"]
given.update(chief=Address(*given["chief"]), key=bytes.fromhex(given["key"]))
config = load_config(task["preset"], **task["settings"])
group = Group(Place(**given), config)
error = None
try:
    module, _, name = task["function"].rpartition(".")
    function = getattr(__import__(module, fromlist=[name]), name)
    print(json.dumps(function(group, config)))
finally:
    group.leave(sys.exc_info()[1])
"""


def run_together(function, num_learners, preset="pendulum", shares_memory=True, **settings):
    """Calls `function(group, config)` in several processes; returns what each returns, as JSON.

    Args:
      function: A function of a module of tests.
      num_learners: How many call it.
      preset: Of the configuration.
      shares_memory: Whether they communicate through shared memory, or over TCP.
      **settings: Of the configuration.
    """
    listener = listen(Address("127.0.0.1", 0))
    memory = create_anonymous_file(shared_bytes(num_learners)) if shares_memory else None
    processes = []
    try:
        key = secrets.token_hex(16)
        for rank in range(num_learners):
            place = {
                "rank": rank,
                "num_learners": num_learners,
                "chief": listener.getsockname()[:2],
                "host": "127.0.0.1",
                "key": key,
                "listener": listener.fileno() if rank == 0 else None,
                "memory": memory,
            }
            task = {
                "place": place,
                "function": f"{function.__module__}.{function.__name__}",
                "preset": preset,
                "settings": settings,
            }
            inherited = [memory] if shares_memory else []
            process = subprocess.Popen(
                [sys.executable, "-c", CODE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[listener.fileno(), *inherited] if rank == 0 else inherited,
                cwd=ROOT,
                text=True,
            )
            process.stdin.write(json.dumps(task))
            process.stdin.close()
            processes.append(process)
        outputs = [process.stdout.read() for process in processes]
        assert [process.wait(30) for process in processes] == [0] * num_learners
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()
        listener.close()
        if memory is not None:
            os.close(memory)
    return [json.loads(output) for output in outputs]
