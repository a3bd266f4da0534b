import io
import time

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents.runs.event_files import (
    EventFile,
    _frame,
    read_records,
    remove_events_after,
)
from tests.runs.shown_events import events, steps_of


@pytest.fixture
def open_file(tmp_path):
    """Opens an event file of a process that is killed: not closed before the end of the test."""
    files = []

    def open_file():
        files.append(EventFile(tmp_path / "events"))
        return files[-1]

    yield open_file
    for file in files:
        file.close()


def write(file, steps):
    for step in steps:
        file.text(step, "note", f"step {step}")
        file.scalars(step, {"loss": step / 8, "return": float("nan")}, 1e9 + step)
        file.histograms(step, {"reward": np.arange(step, dtype=np.float32)})


def records(folder):
    """The records of the only event file, without the one that states the format."""
    [path] = folder.iterdir()
    return list(read_records(path))[1:]


def test_tensorboard_shows_events_of_a_process_that_was_killed(open_file, tmp_path):
    write(open_file(), [100, 200])
    shown = events(tmp_path / "events")
    assert set(shown) == {"loss", "return", "reward", "note"}
    accumulator = EventAccumulator(str(tmp_path / "events"))
    accumulator.Reload()
    assert [event.wall_time for event in accumulator.Tensors("loss")] == [1e9 + 100, 1e9 + 200]
    assert shown["loss"] == ("scalars", [(100, 12.5), (200, 25.0)])
    assert all(np.isnan(value) and value.dtype == np.float32 for _, value in shown["return"][1])
    plugin, texts = shown["note"]
    assert plugin == "text"
    assert [(step, text.item()) for step, text in texts] == [(100, b"step 100"), (200, b"step 200")]


def test_tensorboard_shows_images(open_file, tmp_path):
    data = io.BytesIO()
    Image.new("RGB", (300, 2), "red").save(data, "png")
    open_file().image(100, "episode", data.getvalue())
    plugin, [(step, image)] = events(tmp_path / "events")["episode"]
    assert (plugin, step) == ("images", 100)
    assert image.tolist() == [b"300", b"2", data.getvalue()]


@pytest.mark.parametrize(
    "elements",
    [
        np.random.default_rng(0).normal(size=(20, 3)),
        np.arange(5),
        np.array(3.0),
        np.array([True, False]),
        np.full(4, 1e30, np.float32),
        np.array([1.0, np.nan, 2.0, np.inf]),
        np.zeros(0),
    ],
)
def test_histograms_count_all_finite_elements(open_file, tmp_path, elements):
    open_file().histograms(5, {"elements": elements})
    plugin, [(step, rows)] = events(tmp_path / "events")["elements"]
    assert (plugin, step) == ("histograms", 5)
    left, right, counts = rows.T  # [30] each.
    finite = elements[np.isfinite(elements)].astype(np.float64)
    assert counts.sum() == finite.size
    np.testing.assert_array_equal(left[1:], right[:-1])
    for low, high, count in rows[:-1]:
        assert count == np.sum((finite >= low) & (finite < high))


def test_files_of_one_process_and_second_have_different_names(open_file, tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1.7e9)
    for _ in range(3):
        open_file()
    paths = list((tmp_path / "events").iterdir())
    assert len(paths) == 3
    assert all(path.name.startswith("events.out.tfevents.1700000000.") for path in paths)


DAMAGES = {
    "flipped": lambda data: data[:-30] + bytes([data[-30] ^ 1]) + data[-29:],
    "zeroed": lambda data: data[:-200] + bytes(200),
    "huge length": lambda data: data + (2**60).to_bytes(8, "little") + bytes(20),
    "no event": lambda data: data + _frame(b"\xff\xff\xff"),
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_and_those_after_it_are_removed(open_file, tmp_path, damage):
    write(open_file(), [100, 200])
    [path] = (tmp_path / "events").iterdir()
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    remove_events_after(path.parent, 200)
    write(open_file(), [300])
    kept = {"flipped": [100, 200], "zeroed": [100, 200], "empty": []}.get(damage, [100, 200])
    assert steps_of(path.parent, "loss") == [*kept, 300]


def test_events_are_removed_in_place(open_file, tmp_path):
    """A full disk has no space for another file."""
    write(open_file(), [100, 200])
    [path] = (tmp_path / "events").iterdir()
    before = path.read_bytes(), path.stat().st_ino
    for step in (200, 100):
        remove_events_after(path.parent, step)
        assert before[0].startswith(path.read_bytes()) and path.stat().st_ino == before[1]
        assert steps_of(path.parent, "loss") == [100, 200][: step // 100]


def test_a_file_of_zeros_has_no_events(tmp_path):
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(bytes(2**24))
    start = time.process_time()
    remove_events_after(tmp_path, 100)
    assert path.stat().st_size == 0 and time.process_time() - start < 2
