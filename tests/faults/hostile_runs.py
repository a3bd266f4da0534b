"""Run folders that somebody made to do harm. Each function changes one."""

import os
import struct
import zipfile

import numpy as np

from agents.runs.event_files import masked_crc32c

HUGE = 10**11  # Bytes that a sparse file seems to have.


class Target:
    """A run to be changed, and things outside of it that must not.

    Attributes:
      run: The run.
      file: A file outside of the run.
      folder: A folder outside of the run with a file in it.
      marker: A file that appears when code of the run is executed.
    """

    def __init__(self, run, outside):
        self.run, self.folder, self.marker = run, outside / "folder", outside.parent / "executed"
        self.file = outside / "file"
        self.folder.mkdir(parents=True)
        (self.folder / "precious").write_text("content")
        self.file.write_text("content\n" * 1000)

    def newest(self):
        """The newest checkpoint."""
        return max(self.run.checkpoints.glob("step-*.npz"), key=lambda path: int(path.stem[5:]))

    def event_file(self):
        return next(self.run.train_events.iterdir())

    def write_archive(self, *members, compression=zipfile.ZIP_STORED):
        """Writes a newest checkpoint of other members."""
        path = self.run.checkpoints / f"step-{int(self.newest().stem[5:]) + 1}.npz"
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, data in members:
                archive.writestr(name, data)


def _replace(path, other):
    path.unlink(missing_ok=True)
    path.symlink_to(other)


def _make_sparse(path, start=b""):
    path.write_bytes(start)
    os.truncate(path, HUGE)


def _pickle_of(marker):
    return f"cos\nsystem\n(Vtouch {marker}\ntR.".encode()


# Links, pipes and devices.


def config_is_a_link(target):
    text = target.run.config_file.read_text()
    target.file.write_text(text)
    _replace(target.run.config_file, target.file)


def lock_is_a_link(target):
    _replace(target.run.lock_file, target.file)


def metrics_are_a_link(target):
    _replace(target.run.metrics_file, target.file)


def restarts_are_a_link(target):
    _replace(target.run.restarts_file, target.file)


def checkpoint_is_a_link(target):
    _replace(target.newest(), target.file)


def checkpoints_are_a_linked_folder(target):
    target.run.checkpoints.rename(target.run.path / "kept")
    target.run.checkpoints.symlink_to(target.folder)


def best_is_a_linked_folder(target):
    folder = target.run.checkpoints / "best"
    if folder.exists():
        folder.rename(target.run.path / "kept")
    folder.symlink_to(target.folder)


def events_are_a_linked_folder(target):
    target.run.train_events.rename(target.run.path / "kept")
    target.run.train_events.symlink_to(target.folder)


def events_are_a_link(target):
    _replace(target.event_file(), target.file)


def error_is_a_link(target):
    _replace(target.run.error_file, target.file)


def unfinished_checkpoint_is_a_link(target):
    (target.run.checkpoints / "step-900.npz.unfinished").symlink_to(target.file)


def config_is_a_pipe(target):
    target.run.config_file.unlink()
    os.mkfifo(target.run.config_file)


def lock_is_a_pipe(target):
    target.run.lock_file.unlink(missing_ok=True)
    os.mkfifo(target.run.lock_file)


def metrics_are_a_pipe(target):
    target.run.metrics_file.unlink()
    os.mkfifo(target.run.metrics_file)


def checkpoint_is_a_pipe(target):
    path = target.newest()
    path.unlink()
    os.mkfifo(path)


def events_are_a_pipe(target):
    path = target.event_file()
    path.unlink()
    os.mkfifo(path)


def metrics_have_another_link(target):
    target.run.metrics_file.unlink()
    os.link(target.file, target.run.metrics_file)


def lock_has_another_link(target):
    target.run.lock_file.unlink(missing_ok=True)
    os.link(target.file, target.run.lock_file)


def events_have_another_link(target):
    path = target.event_file()
    path.unlink()
    os.link(target.file, path)


# Bombs and code.


def config_of_a_thousand_million_values(target):
    lines = ["a0: &a0 [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    target.run.config_file.write_text("\n".join(lines))


def config_is_nested_deeply(target):
    target.run.config_file.write_text("env_kwargs: " + "[" * 5_000 + "]" * 5_000)


def config_executes_code(target):
    line = f"env: !!python/object/apply:os.system ['touch {target.marker}']\n"
    target.run.config_file.write_text(line)


def config_is_huge(target):
    _make_sparse(target.run.config_file, b"env: Pendulum-v1\n#")


def config_names_a_module_of_the_run(target):
    (target.run.path / "evil.py").write_text(f"open({str(target.marker)!r}, 'w')")
    with target.run.config_file.open("a") as file:
        file.write(f"\nenv: {target.run.path.name}.evil:My-v0\n")


def checkpoint_is_sparse(target):
    path = target.run.checkpoints / "step-900000.npz"
    _make_sparse(path)


def checkpoint_is_an_archive_around_a_hole(target):
    """As much as one array of zeros, not compressed; the list of members is right."""
    path = target.newest()
    name, data = b"network.npy", path.read_bytes()
    size = HUGE - 2**20
    extra = struct.pack("<HHQQ", 1, 16, size, size)
    local = struct.pack(
        "<4s5H3L2H", b"PK\3\4", 45, 0, 0, 0, 0, 0, 2**32 - 1, 2**32 - 1, len(name), 20
    )
    start = local + name + extra
    central = struct.pack("<4s6H3L5H2L", b"PK\1\2", 45, 45, 0, 0, 0, 0, 0, 2**32 - 1, 2**32 - 1,
                          len(name), 20, 0, 0, 0, 0, 0) + name + extra  # fmt: skip
    place = len(start) + size
    end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(central), place)
    end += struct.pack("<4sLQL", b"PK\6\7", 0, place + len(central), 1)
    end += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(central), 2**32 - 1, 0)
    assert data
    with path.open("wb") as file:
        file.write(start)
        file.seek(place)
        file.write(central + end)


def checkpoint_has_a_million_members(target):
    """Written by hand: the library takes half a minute."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0)
    entries = b"".join(entry + b"%07d" % number for number in range(10**6))
    end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 10**6, 10**6, len(entries), 0)
    end += struct.pack("<4sLQL", b"PK\6\7", 0, len(entries), 1)
    end += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, len(entries), 0, 0)
    (target.run.checkpoints / "step-900000.npz").write_bytes(entries + end)


def checkpoint_is_compressed(target):
    target.write_archive(("a.npy", bytes(2**24)), compression=zipfile.ZIP_DEFLATED)


def checkpoint_holds_a_pickle(target):
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    step = int(target.newest().stem[5:]) + 1
    target.write_archive(
        ("@step.npy", _npy(step)), ("run%2Fsteps.npy", array + _pickle_of(target.marker))
    )


def checkpoint_is_a_pickle(target):
    target.newest().write_bytes(_pickle_of(target.marker))


def checkpoint_promises_terabytes(target):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117)
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header + b"\n"
    step = int(target.newest().stem[5:]) + 1
    target.write_archive(("@step.npy", _npy(step)), ("run%2Fsteps.npy", array))


def checkpoint_has_a_nested_header(target):
    header = b"(" * 9000 + b")" * 9000 + b"\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    target.write_archive(("@step.npy", array))


def checkpoint_leaves_its_folder(target):
    target.write_archive(("../../../outside/file", b"evil"), ("/etc/evil", b"evil"))


def checkpoints_are_thousands(target):
    for number in range(3_000):
        (target.run.checkpoints / f"step-{10**6 + number}.npz").touch()


# Damaged metrics and events.


def metrics_are_sparse(target):
    _make_sparse(target.run.metrics_file, b'{"step": 1}\n')


def metrics_are_one_long_line(target):
    target.run.metrics_file.write_bytes(b"[" * 2**25)


def metrics_are_nested_deeply(target):
    with target.run.metrics_file.open("a") as file:
        file.write('{"step": ' + "[" * 100_000 + "]" * 100_000 + "}\n")


def metrics_of_strange_values(target):
    lines = ['{"step": NaN}', '{"step": 1e999}', '{"step": -1, "wall_time": 1' + "0" * 4000 + "}",
             '{"step": true}', "null", '{"step": 1, "a": {"b": NaN}}', "\x00", '"step"']  # fmt: skip
    with target.run.metrics_file.open("a") as file:
        file.write("\n".join(lines))


def metrics_are_random(target):
    target.run.metrics_file.write_bytes(os.urandom(2**20))


def events_are_sparse(target):
    _make_sparse(target.event_file(), target.event_file().read_bytes())


def events_promise_terabytes(target):
    length = struct.pack("<Q", 2**42)
    with target.event_file().open("ab") as file:
        file.write(length + struct.pack("<I", masked_crc32c(length)) + b"rest")


def events_are_zeros(target):
    target.event_file().write_bytes(bytes(2**24))


def events_are_random(target):
    with target.event_file().open("ab") as file:
        file.write(os.urandom(10_000))


def _npy(step):
    value = np.array(step)
    header = "{'descr': '<i8', 'fortran_order': False, 'shape': (), }".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + value.tobytes()


CASES = [
    case
    for name, case in list(globals().items())
    if name.startswith(("config", "lock", "metrics", "restarts", "checkpoint", "best",
                        "events", "error", "unfinished"))
]  # fmt: skip
