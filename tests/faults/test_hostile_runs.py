"""Hostile run folders: nothing is executed, nothing outside is touched, and nothing takes long."""

import contextlib
import functools
import os
import shutil
import signal
import struct
import time
import warnings
import zipfile

import numpy as np

from agents.errors import UsageError
from agents.runs.event_files import masked_crc32c
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from tests.faults.figures import record
from tests.faults.plain_runs import resume, save_steps

SECONDS = 2  # Of processor time.
HUGE = 10**11  # Bytes that a sparse file seems to have.


class Target:
    """A run to be changed, and things outside of it that must not.

    Attributes:
      run: The run.
      outside: A folder outside of the run with a file, and a folder with a file in it.
      marker: A file that appears when code of the run is executed.
    """

    def __init__(self, run, folder):
        self.run, self.outside, self.marker = run, folder / "outside", folder / "executed"
        (self.outside / "folder").mkdir(parents=True)
        (self.outside / "folder" / "precious").write_text("content")
        (self.outside / "file").write_bytes(run.config_file.read_bytes())
        self.files = {
            "config": run.config_file,
            "lock": run.lock_file,
            "metrics": run.metrics_file,
            "restarts": run.restarts_file,
            "error": run.error_file,
            "checkpoint": run.checkpoints / f"step-{STEPS[-1]}.npz",
            "events": next(run.train_events.iterdir()),
            "unfinished": run.checkpoints / "step-900.npz.unfinished",
        }

    def outside_state(self):
        """Names, contents and times of all that is outside."""
        return {
            path: (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
            for path in [self.outside, *self.outside.rglob("*")]
        }


# Links, pipes and folders.


def replace_file(file, make, target):
    target.files[file].unlink(missing_ok=True)
    make(target.outside / "file", target.files[file])


def link(outside, path):
    path.symlink_to(outside)


def pipe(outside, path):
    os.mkfifo(path)


def link_folder(name, target):
    folder = target.run.path / name
    if folder.exists():
        folder.rename(target.run.path / "kept")
    folder.symlink_to(target.outside / "folder")


# Contents of files.


def write_file(file, data, target, mode="wb", size=None):
    with target.files[file].open(mode) as stream:
        stream.write(data.replace(b"MARKER", os.fsencode(target.marker)))
    if size:
        os.truncate(target.files[file], size)


append_file = functools.partial(write_file, mode="ab")
PICKLE = b"cos\nsystem\n(Vtouch MARKER\ntR."
ALIASES = ["a0: &a0 [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]"]
ALIASES += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
STRANGE_METRICS = [
    '{"step": NaN}', '{"step": 1e999}', '{"step": -1, "wall_time": 1' + "0" * 4000 + "}",
    '{"step": true}', "null", '{"step": 1, "a": {"b": NaN}}', "\x00", '"step"',
]  # fmt: skip
TERABYTES = struct.pack("<Q", 2**42)


def name_a_module_of_the_run(target):
    (target.run.path / "evil.py").write_text(f"open({str(target.marker)!r}, 'w')")
    append_file("config", f"\nenv: {target.run.path.name}.evil:My-v0\n".encode(), target)


# Newest checkpoints of other members.


def array(header, data=b""):
    """The bytes of an array file with a header."""
    header = header.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def write_archive(members, target):
    step = STEPS[-1] + 1
    number = array(
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (), }", np.array(step).tobytes()
    )
    with zipfile.ZipFile(target.run.checkpoints / f"step-{step}.npz", "w") as archive:
        archive.writestr("@step.npy", number)
        for name, data in members.items():
            archive.writestr(name, data.replace(b"MARKER", os.fsencode(target.marker)))


def make_thousands_of_checkpoints(target):
    for number in range(3_000):
        (target.run.checkpoints / f"step-{10**6 + number}.npz").touch()


STEPS = range(10, 80, 10)
FILES = ("config", "lock", "metrics", "restarts", "error", "checkpoint", "events")
CASES = {
    f"{make.__name__} as {file}": functools.partial(replace_file, file, make)
    for file in (*FILES, "unfinished")
    for make in (link, pipe, os.link)
}
CASES |= {
    f"link as {name}": functools.partial(link_folder, name)
    for name in ("checkpoints", "checkpoints/best", "checkpoints/replay", "train")
}
CASES |= {
    f"{name}: {file}": functools.partial(write, file, data)
    for name, write, file, data in (
        ("a thousand million values", write_file, "config", "\n".join(ALIASES).encode()),
        ("deep", write_file, "config", b"env_kwargs: " + b"[" * 5_000 + b"]" * 5_000),
        ("code", write_file, "config",
         b"env: !!python/object/apply:os.system ['touch MARKER']\n"),
        ("huge", functools.partial(write_file, size=HUGE), "config", b"env: Pendulum-v1\n#"),
        ("huge", functools.partial(write_file, size=HUGE), "checkpoint", b""),
        ("pickle", write_file, "checkpoint", PICKLE),
        ("huge", functools.partial(write_file, size=HUGE), "metrics", b'{"step": 1}\n'),
        ("a long line", write_file, "metrics", b"[" * 2**25),
        ("deep", append_file, "metrics", b'{"step": ' + b"[" * 10**5 + b"]" * 10**5 + b"}\n"),
        ("strange", append_file, "metrics", "\n".join(STRANGE_METRICS).encode()),
        ("random", write_file, "metrics", os.urandom(2**20)),
        ("huge", functools.partial(append_file, size=HUGE), "events", b""),
        ("terabytes", append_file, "events",
         TERABYTES + struct.pack("<I", masked_crc32c(TERABYTES)) + b"rest"),
        ("zeros", write_file, "events", bytes(2**24)),
        ("random", append_file, "events", os.urandom(10_000)),
    )
}  # fmt: skip
CASES |= {
    f"checkpoint: {name}": functools.partial(write_archive, members)
    for name, members in {
        "pickle": {"run%2Fsteps.npy": array(
            b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", PICKLE)},
        "terabytes": {"run%2Fsteps.npy": array(
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }")},
        "deep header": {"run%2Fsteps.npy": array(b"(" * 9000 + b")" * 9000)},
        "other folders": {"../../../outside/file": b"evil", "/etc/evil": b"evil"},
    }.items()
}  # fmt: skip
CASES["modules"] = name_a_module_of_the_run
CASES["thousands of checkpoints"] = make_thousands_of_checkpoints


@contextlib.contextmanager
def time_limit(seconds):
    """Raises TimeoutError in what waits for a pipe."""

    def expire(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def show(run):
    """What `visualize` does with a run's files."""
    run.load_config()
    run.checkpoint("last")
    read_metrics(run.metrics_file)


def attempt(function, run):
    """Calls it; returns "refused" or "read", and the processor time."""
    start, outcome = time.process_time(), "read"
    with time_limit(30), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            function(run)
        except UsageError as error:
            assert len(str(error).splitlines()) <= 3
            outcome = "refused"
    return outcome, time.process_time() - start


def test_hostile_files_are_refused_or_read(tmp_path):
    intact = RunDirectory(tmp_path / "20260131T120000-default")
    save_steps(intact, STEPS)
    resume(intact)  # So that the library of events is loaded.
    outcomes, most = [], 0.0
    for number, (name, change) in enumerate(CASES.items()):
        folder = tmp_path / str(number)
        run = RunDirectory(folder / "logs" / intact.path.name)
        shutil.copytree(intact.path, run.path)
        target = Target(run, folder)
        change(target)
        before = target.outside_state()
        # Again after the first has cut metrics and events.
        results = [attempt(function, run) for function in (show, resume, resume)]
        outcomes.append(max(outcome for outcome, _ in results))
        most = max(most, *(seconds for _, seconds in results))
        assert max(seconds for _, seconds in results) < SECONDS, name
        assert target.outside_state() == before, name
        assert not target.marker.exists(), name
        shutil.rmtree(folder)
    record(
        "hostile run folders",
        cases=len(outcomes),
        refused=outcomes.count("refused"),
        read=outcomes.count("read"),
        executions=0,
        files_outside_touched=0,
        most_processor_seconds=round(most, 2),
    )
    assert len(outcomes) >= 40
    assert "refused" in outcomes and "read" in outcomes
