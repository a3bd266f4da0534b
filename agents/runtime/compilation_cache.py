"""XLA's compilation cache: programs that one process has compiled are loaded by the next one.

Loading takes a fraction of the seconds that compiling takes, and the programs are the same, bit by
bit. What is loaded is executed, and TensorFlow fails at a file that is damaged. So the folder is
the user's alone, and files without the right checksum are removed before TensorFlow starts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import time
from pathlib import Path

from agents.regular_files import write_atomically

VARIABLE = "AGENTS_COMPILATION_CACHE"
OFF = "off"

MAX_BYTES = 2**26  # Of programs; a run has 2 to 5 MB. All are read at every start.
# TensorFlow fails when it can't write a program: there has to be far more space than it needs.
MIN_FREE_BYTES = 2**28
# Another process may be about to write the checksum of a program, or a program, for as long.
GRACE_SECONDS = 600

_PROGRAM, _CHECKSUM = "*.pb", ".sha256"
_FLAGS = "TF_XLA_FLAGS"


class CompilationCache:
    """A folder of compiled programs.

    Attributes:
      folder: Where they are.
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

    def flags(self) -> str:
        """Returns what TensorFlow needs in `TF_XLA_FLAGS`; nothing is written on a full disk."""
        flags = [
            f"--tf_xla_persistent_cache_directory={self.folder}",
            "--tf_xla_persistent_cache_device_types=CPU",
        ]
        may_write = os.access(self.folder, os.W_OK)
        if not may_write or shutil.disk_usage(self.folder).free < MIN_FREE_BYTES:
            flags.append("--tf_xla_persistent_cache_read_only=true")
        return " ".join(flags)

    def seal(self) -> None:
        """Writes the checksums of programs that have none yet."""
        with contextlib.suppress(OSError):  # The next process compiles again.
            for program in self.folder.glob(_PROGRAM):
                checksum = _checksum_file(program)
                if not checksum.exists():
                    write_atomically(checksum, _checksum(program))

    def clean(self) -> None:
        """Removes what is damaged or was left unfinished, and the oldest programs beyond a limit."""
        with contextlib.suppress(OSError):  # Of another process that cleans as well.
            programs = sorted(self.folder.glob(_PROGRAM), key=lambda path: -path.stat().st_mtime)
            kept = 0
            for program in programs:
                kept += program.stat().st_size
                if kept > MAX_BYTES or not _is_whole(program):
                    _checksum_file(program).unlink(missing_ok=True)
                    program.unlink(missing_ok=True)
            for path in self.folder.iterdir():
                orphan = path.suffix == _CHECKSUM and not path.with_suffix("").exists()
                unfinished = path.suffix not in (".pb", _CHECKSUM)
                if (orphan or unfinished) and _age(path) > GRACE_SECONDS:
                    path.unlink(missing_ok=True)


# The cache of this process, once TensorFlow has started.
in_use: CompilationCache | None = None


def use_cache(threads: int) -> None:
    """Lets TensorFlow keep compiled programs, unless it has looked for devices already.

    Args:
      threads: Size of TensorFlow's thread pools.
    """
    import tensorflow as tf

    global in_use
    if in_use or not (in_use := find_cache(threads)):
        return
    given = os.environ.get(_FLAGS)
    os.environ[_FLAGS] = " ".join(filter(None, [given, in_use.flags()]))
    try:
        tf.config.list_physical_devices()  # Flags are read here, once.
    finally:  # Not for processes that this one starts.
        del os.environ[_FLAGS]
        if given is not None:
            os.environ[_FLAGS] = given


def find_cache(threads: int) -> CompilationCache | None:
    """Returns the cache for programs of this process, without anything damaged in it.

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
    if given == OFF or "persistent_cache" in os.environ.get(_FLAGS, ""):
        return None
    # Without a dash, it is the path of a file of flags.
    if any(flags and not flags.strip().startswith("-") for flags in _given_flags()):
        return None
    try:
        root = Path(given) if given else _user_folder()
        cache = CompilationCache(root.absolute() / _key(threads))
    except (OSError, RuntimeError):  # Without a home, or a disk, everything is compiled.
        return None
    cache.clean()
    return cache


def _user_folder() -> Path:
    """The folder of this user's caches.

    Raises:
      OSError: The home is another user's, as with `sudo`.
      RuntimeError: There is no home.
    """
    caches = os.environ.get("XDG_CACHE_HOME")
    home = Path.home()
    if not caches and home.stat().st_uid != os.geteuid():
        raise PermissionError(f"{home} is another user's")
    return Path(caches or home / ".cache", "agents", "xla")


def _given_flags() -> list[str]:
    return [os.environ.get(name, "") for name in ("XLA_FLAGS", _FLAGS)]


def _key(threads: int) -> str:
    """Tells apart what programs depend on, besides themselves."""
    import tensorflow as tf

    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.is_file() else [platform.processor()]
    features = sorted({line for line in lines if line.startswith(("model name", "flags"))})
    parts = [tf.version.GIT_VERSION, platform.machine(), *features, *_given_flags()]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts.append(str(threads or cores))
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return f"tensorflow-{tf.__version__}-{digest}"


def _checksum_file(program: Path) -> Path:
    return program.with_name(program.name + _CHECKSUM)


def _checksum(program: Path) -> bytes:
    return hashlib.sha256(program.read_bytes()).hexdigest().encode() + b"\n"


def _is_whole(program: Path) -> bool:
    """Whether a program is as it was compiled; a new one has no checksum for a moment."""
    checksum = _checksum_file(program)
    if not checksum.exists():
        return _age(program) < GRACE_SECONDS
    return checksum.read_bytes() == _checksum(program)


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime
