"""XLA's compilation cache: programs that one process has compiled are loaded by the next one.

Loading takes a fraction of the seconds that compiling takes, and the programs are the same, bit for
bit. Cached programs are executed, and TensorFlow fails at a file that is damaged, or can't be
written. So the folder belongs to one user, and TensorFlow does not use it. Programs with the right
checksum are copied to its files in memory before it starts, and new ones to the folder afterwards.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import platform
import shutil
import time
import warnings
from pathlib import Path

from agents.regular_files import UNFINISHED, write_atomically

VARIABLE = "AGENTS_COMPILATION_CACHE"
OFF = "off"

MAX_BYTES = 2**26  # Of programs; a run has 2 to 5 MB. All are read at every start.
# A disk that is nearly full is left to more important files.
MIN_FREE_BYTES = 2**28
GRACE_SECONDS = 600  # As long, another process may be writing an unfinished program.

# TensorFlow's folder, in the memory of this process.
MEMORY = "ram://agents/xla"

_FLAGS = "TF_XLA_FLAGS"

# Environments may change the working directory before TensorFlow starts.
try:
    _STARTED_IN = Path.cwd()
except FileNotFoundError:  # It was deleted.
    _STARTED_IN = Path()


class CompilationCache:
    """A folder of compiled programs.

    Attributes:
      folder: The folder.
    """

    def __init__(self, folder: Path):
        """Creates the folder, for this user only, unless it is there.

        Raises:
          OSError: It can't be created, or others may write in it.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(f"{folder}: others than this user may write there")
        self.folder = folder
        self._stored: set[str] = set()
        self._can_write = True

    def load(self) -> None:
        """Copies the programs to TensorFlow's memory.

        Removes damaged ones, the oldest ones beyond a limit, and what killed processes left.

        Raises:
          OSError: A program can't be read.
        """
        import tensorflow as tf

        tf.io.gfile.makedirs(MEMORY)
        left = MAX_BYTES
        for path in sorted(self.folder.iterdir(), key=_age):
            if path.suffix == UNFINISHED and _age(path) < GRACE_SECONDS:
                continue
            with contextlib.suppress(FileNotFoundError):  # Another process cleans as well.
                checksum, _, program = path.read_bytes().partition(b"\n")
                left -= len(program)
                if left < 0 or checksum != _checksum(program):
                    path.unlink()
                    continue
                with tf.io.gfile.GFile(f"{MEMORY}/{path.name}", "wb") as file:
                    file.write(program)
                self._stored.add(path.name)

    def store(self) -> None:
        """Writes new programs with their checksums; warns once if that fails."""
        import tensorflow as tf

        try:
            if not self._can_write or shutil.disk_usage(self.folder).free < MIN_FREE_BYTES:
                return
            for name in tf.io.gfile.listdir(MEMORY):
                if name in self._stored or not name.endswith(".pb"):
                    continue
                with tf.io.gfile.GFile(f"{MEMORY}/{name}", "rb") as file:
                    program = file.read()
                write_atomically(self.folder / name, _checksum(program) + b"\n" + program)
                self._stored.add(name)
        except OSError as error:
            self._can_write = False
            _warn(self.folder, error)


# The cache of this process, once TensorFlow has started.
in_use: CompilationCache | None = None


def use_cache(threads: int) -> None:
    """Starts the cache of compiled programs; no effect once TensorFlow has looked for devices.

    Args:
      threads: Size of TensorFlow's thread pools.
    """
    import tensorflow as tf

    global in_use
    if in_use or not (in_use := find_cache(threads)):
        return
    try:
        in_use.load()
    except (OSError, tf.errors.OpError) as error:
        _warn(in_use.folder, error)
        in_use = None
        return
    given = os.environ.get(_FLAGS, "")
    os.environ[_FLAGS] = (
        f"{given} --tf_xla_persistent_cache_directory={MEMORY} "
        "--tf_xla_persistent_cache_device_types=CPU"
    )
    try:
        tf.config.list_physical_devices()  # Flags are read here, once.
    finally:  # Not for processes that this one starts.
        del os.environ[_FLAGS]
        if given:
            os.environ[_FLAGS] = given


def find_cache(threads: int) -> CompilationCache | None:
    """Returns the cache for programs of this process.

    It lies in the folder that the variable `AGENTS_COMPILATION_CACHE` names, or else where the user's
    caches are. Each machine, version of TensorFlow, number of threads and set of XLA's flags has a
    folder of its own.

    Args:
      threads: Size of TensorFlow's thread pools.

    Returns:
      The cache; None if it is `off`, can't be kept, or the user has chosen another one for XLA or
      reads its flags from a file.
    """
    given = os.environ.get(VARIABLE, "")
    flags = [os.environ.get(name, "") for name in ("XLA_FLAGS", _FLAGS)]
    if given == OFF or "persistent_cache" in flags[1]:
        return None
    # Without a dash, it is the path of a file of flags.
    if any(each and not each.strip().startswith("-") for each in flags):
        return None
    try:
        if given:
            root = _STARTED_IN / os.path.expanduser(given)
        else:
            caches, home = os.environ.get("XDG_CACHE_HOME"), Path.home()
            if not caches and home.stat().st_uid != os.geteuid():
                return None  # Another user's, as with `sudo`.
            root = _STARTED_IN / (caches or home / ".cache") / "agents" / "xla"
        return CompilationCache(root / _key(threads, flags))
    except (OSError, RuntimeError) as error:  # Without a home, or a disk, everything is compiled.
        if given:
            _warn(Path(given), error)
        return None


def _key(threads: int, flags: list[str]) -> str:
    """Returns the folder's name: a digest of all that programs depend on besides themselves."""
    import tensorflow as tf

    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.is_file() else [platform.processor()]
    features = sorted({line for line in lines if line.startswith(("model name", "flags"))})
    parts = [tf.version.GIT_VERSION, platform.machine(), *features, *flags]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts.append(str(threads or cores))
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return f"tensorflow-{tf.__version__}-{digest}"


def _checksum(program: bytes) -> bytes:
    return hashlib.sha256(program).hexdigest().encode()


def _warn(folder: Path, error: Exception) -> None:
    reason = getattr(error, "strerror", None) or error
    warnings.warn(
        f"Compiled programs can't be kept in {folder} ({reason}); the next start compiles again.",
        stacklevel=2,
    )


def _age(path: Path) -> float:
    """Returns the seconds since a file was written; infinite if it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return math.inf
