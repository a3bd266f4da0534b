"""The connection with Ray: with the cluster that runs, or with one of this machine alone.

Ray reads environment variables when it is imported, which must not happen before.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from agents.distributed.cluster import parse_address
from agents.errors import UsageError, first_line
from agents.settings.installation import install_command
from agents.workers.reaper import KILL

# Seconds for the head of a cluster to accept a connection, and for a Ray of our own to end. Ray
# itself would try for five minutes, in which signals do nothing.
_CONNECT_SECONDS = 5.0
_END_SECONDS = 15.0

# Starts Ray in a process group of its own, so that signals to the terminal's do not end it while a
# checkpoint is saved; it ends with the process that has started it.
_LOCAL_CODE = (
    "import sys; sys.path[:] = {path!r}; "
    "from agents.workers.reaper import guard; guard({parent}); "
    "from agents.distributed.ray_session import serve; serve()"
)


@contextlib.contextmanager
def connected() -> Iterator[None]:
    """Connects this process with the cluster of `RAY_ADDRESS`, or of `ray start` on this machine.

    Without one, or if `RAY_ADDRESS` is `local`, a Ray is started for as long as this is open.

    Raises:
      UsageError: Ray is not installed, the cluster does not answer, or this machine is no node of it.
    """
    if importlib.util.find_spec("ray") is None:
        raise UsageError(
            f"--cluster=ray needs the package ray, which is not installed\n{install_command('ray')}"
        )
    source, address = running_cluster()
    print(f"Connecting to Ray at {address}" if address else "Starting Ray", file=sys.stderr)
    with contextlib.ExitStack() as stack:
        given = None  # Ray finds the same cluster, and with it the credentials.
        if not address:
            source = "started here"
            given = address = stack.enter_context(_local_ray())
        _check_reachable(source, address)
        import ray

        handler = signal.getsignal(signal.SIGTERM)  # Ray's would change the exit code.
        try:
            ray.init(address=given, log_to_driver=False, logging_level="ERROR")
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(
                f"can't use the Ray cluster at {address} ({source}): {first_line(error)}\n"
                "run the command on a node of the cluster, with the same versions of Ray and Python"
            ) from None
        finally:
            signal.signal(signal.SIGTERM, handler)
        stack.callback(ray.shutdown)
        # Ray prints pages of its logs when a node dies; its errors have the reason.
        nothing = stack.enter_context(open(os.devnull, "w"))
        stack.enter_context(contextlib.redirect_stdout(nothing))
        yield


def running_cluster() -> tuple[str, str]:
    """Returns where the address of a cluster was found, and the address; empty if there is none."""
    if (named := os.environ.get("RAY_ADDRESS", "auto")) not in ("", "auto"):
        if "://" in named:
            raise UsageError(
                f"RAY_ADDRESS={named}: the chief can't run on a Ray client\n"
                "expected host:port, and a command that runs on a node of the cluster"
            )
        return "RAY_ADDRESS", "" if named == "local" else named
    # Written by `ray start`. With "auto" Ray would also take the private one of another training.
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    path = Path(folder, "ray", "ray_current_cluster")
    try:
        status = path.lstat()
        # The author of the address can run code in this process.
        if stat.S_ISREG(status.st_mode) and status.st_uid in (0, os.getuid()):
            return str(path), path.read_text().strip()
    except OSError:
        pass
    return "", ""


def _check_reachable(source: str, address: str) -> None:
    try:
        host = parse_address(address)
    except ValueError as error:
        raise UsageError(f"{source}: {error}; expected an address such as 10.0.0.1:6379") from None
    try:
        socket.create_connection(host, _CONNECT_SECONDS).close()
    except OSError as error:
        raise UsageError(
            f"Ray does not answer at {address} (of {source}): {error.strerror or error}\n"
            "start it there with `ray start --head`, or set RAY_ADDRESS=local to train without a cluster"
        ) from None


@contextlib.contextmanager
def _local_ray() -> Iterator[str]:
    """Starts Ray with the cores and GPUs of this machine; yields its address, on the loopback.

    It writes nothing to the user's home, as a token otherwise.
    """
    os.environ.update(
        RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # The loopback interface; on Linux as well.
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(32),
        RAY_USAGE_STATS_ENABLED="0",
        RAY_worker_niceness="0",  # Learners are no background work here.
    )
    os.environ.pop("RAY_ADDRESS", None)
    code = _LOCAL_CODE.format(path=sys.path, parent=os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise UsageError("Ray could not be started on this machine; see above")
            yield address
        finally:
            process.stdin.close()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(KILL)


def serve() -> None:
    """Runs Ray on this machine until standard input is closed."""
    import ray

    context = ray.init(
        address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )
    print(context.address_info["gcs_address"], flush=True)
    sys.stdin.read()
    ray.shutdown()
