import os
import subprocess
import sys

import pytest
import tensorflow as tf

from agents.errors import UsageError
from agents.tensorflow_setup import quiet_tensorflow, start_tensorflow
from tests.deployment.untrained import KINDS, save_run


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


def test_a_gpu_that_is_not_there_is_an_error_in_tensorflow_that_has_started(monkeypatch):
    tf.config.list_logical_devices()
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    with pytest.raises(UsageError, match="^device: TensorFlow finds no GPU"):
        start_tensorflow(1, "gpu")


# Messages.

START_UP_MESSAGES = [
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1 port.cc:153] oneDNN custom operations are on. You may see slightly different numerical results",
    "I0000 00:00:1 cudart_stub.cc:31] Could not find cuda drivers on your machine",
]


def test_loading_a_policy_and_acting_is_silent_and_warnings_are_not(tmp_path):
    run = save_run(KINDS["gaussian"], tmp_path)
    script = tmp_path / "act.py"
    script.write_text(
        f"""
import sys, warnings
import numpy as np
import agents
policy = agents.load_policy({str(run.path)!r})
policy(policy.observation_space.sample())
policy.step(np.stack([policy.observation_space.sample()] * 3))
agents.PPO, agents.simulate
print(sorted({{"tensorflow", "agents.ppo.ppo"}} & set(sys.modules)))
warnings.warn("a warning")
"""
    )
    environment = {
        name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"
    }
    process = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment
    )
    assert process.stdout == "['agents.ppo.ppo', 'tensorflow']\n", process.stderr
    shown = f'{script}:10: UserWarning: a warning\n  warnings.warn("a warning")\n'
    assert process.stderr == shown


def test_no_temporary_folder_and_a_closed_stderr_are_no_errors():
    code = """
import os, resource
from agents.tensorflow_setup import quiet_tensorflow
for fault in (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)), lambda: os.close(2)):
    fault()
    with quiet_tensorflow():
        print("imported")
"""
    process = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout == "imported\n" * 2


@pytest.fixture(autouse=True)
def default_level(monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)


def test_only_start_up_messages_are_dropped(capfd):
    with quiet_tensorflow():
        for line in [*START_UP_MESSAGES, "something else", ""]:
            os.write(2, f"{line}\n".encode())
        print("and in Python", file=sys.stderr)
    assert sorted(capfd.readouterr().err.splitlines()) == ["", "and in Python", "something else"]


def test_messages_before_an_exception_are_written(capfd):
    with pytest.raises(OSError, match="no library"), quiet_tensorflow():
        os.write(2, b"why it failed\n")
        raise OSError("no library")
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "why it failed\nafterwards\n"


def test_users_who_ask_for_information_see_it(capfd, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    with quiet_tensorflow():
        os.write(2, START_UP_MESSAGES[1].encode())
        assert capfd.readouterr().err == START_UP_MESSAGES[1]
