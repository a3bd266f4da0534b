"""A Ray cluster in processes of its own: two nodes with a CPU each, of which one may die."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.commands import processes_with

ROOT = Path(__file__).parents[2]

# Ray takes some twenty seconds by default to notice that a node has died.
CODE = """
import sys
from ray.cluster_utils import Cluster

checks = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 6,
}
node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}  # Nothing goes through it.
head = {**node, "include_dashboard": False, "_system_config": checks}
cluster = Cluster(initialize_head=True, head_node_args=head)
nodes = []
print(cluster.address, flush=True)
for line in sys.stdin:
    if line == "add\\n":
        nodes.append(cluster.add_node(**node))
    else:
        cluster.remove_node(nodes.pop(), allow_graceful=False)
    print("done", flush=True)
cluster.shutdown()
"""


class RayNodes:
    """The cluster; commands with its `variables` find it.

    Attributes:
      variables: The environment of commands.
      host: The address of all nodes.
    """

    def __init__(self, **variables):
        self._folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # Names of sockets are short.
        self.variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "RAY_TMPDIR": self._folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",
            "RAY_memory_monitor_refresh_ms": "0",  # It would kill learners where memory is scarce.
            **variables,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.variables,
            text=True,
        )
        address = self._process.stdout.readline().strip()
        self.host = address.rpartition(":")[0]
        self.variables["RAY_ADDRESS"] = address
        self._has_second = False

    def add_second(self):
        """Adds the second node if it is not there."""
        if not self._has_second:
            self._ask("add")
        self._has_second = True

    def kill_second(self):
        """Kills Ray's own processes of the second node."""
        self._ask("kill")
        self._has_second = False

    def kill_head(self):
        """Kills Ray's server of the cluster, which nothing of Ray survives for long."""
        [pid] = self.processes("gcs_server")
        os.kill(pid, signal.SIGKILL)

    def processes(self, *parts):
        """Ids of processes of learners and their actors whose command line has one of the parts."""
        found = []
        for pid in processes_with(self._folder):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if any(part in line for part in parts or ("agents.scripts.learner", "LearnerActor")):
                found.append(pid)
        return found

    def close(self):
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        for pid in processes_with(self._folder):  # Ray's agents outlive a killed node for a minute.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, what):
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"
