import os
import subprocess
import sys

import pytest
import tensorflow as tf

from agents.errors import UsageError
from agents.tensorflow_setup import start_tensorflow


@pytest.mark.parametrize("chosen", [None, "0"])
def test_onednn_is_on_unless_the_user_has_chosen(chosen):
    environment = {name: os.environ[name] for name in os.environ if "ONEDNN" not in name}
    environment |= {"TF_ENABLE_ONEDNN_OPTS": chosen} if chosen else {}
    code = "import agents.learning, os; print(os.environ['TF_ENABLE_ONEDNN_OPTS'])"
    output = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert output.strip() == (chosen or "1")


def test_has_no_effect_after_tensorflow_has_started():
    tf.constant(0)
    before = tf.config.threading.get_intra_op_parallelism_threads()
    start_tensorflow(before + 1)
    assert tf.config.threading.get_intra_op_parallelism_threads() == before


class FakeDevices:
    """Stands for `tf.config` on a machine with two GPUs; remembers which ones are used."""

    def __init__(self):
        self.visible, self.growing = None, []

    def list_physical_devices(self, kind):
        return ["GPU:0", "GPU:1"]

    def set_visible_devices(self, devices, kind):
        self.visible = devices

    def set_memory_growth(self, device, grows):
        self.growing.append(device)


@pytest.fixture
def one_pool(monkeypatch):
    """Leaves the threads of this process as they are."""
    for pool in ("intra", "inter"):
        setter = f"set_{pool}_op_parallelism_threads"
        monkeypatch.setattr(tf.config.threading, setter, lambda threads: None)


@pytest.mark.parametrize(
    ("device", "rank", "used"),
    [("any", 0, ["GPU:0"]), ("gpu", 1, ["GPU:1"]), ("any", 2, ["GPU:0"]), ("cpu", 0, [])],
)
def test_learners_of_a_machine_take_one_gpu_each(monkeypatch, one_pool, device, rank, used):
    devices = FakeDevices()
    monkeypatch.setattr(tf.config, "list_physical_devices", devices.list_physical_devices)
    monkeypatch.setattr(tf.config, "set_visible_devices", devices.set_visible_devices)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", devices.set_memory_growth)
    start_tensorflow(1, device, rank)
    assert devices.visible == devices.growing == used


def test_a_gpu_that_is_not_there_is_one_clear_error(monkeypatch, one_pool):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    with pytest.raises(UsageError, match="^device: TensorFlow finds no GPU\nexpected"):
        start_tensorflow(1, "gpu")
