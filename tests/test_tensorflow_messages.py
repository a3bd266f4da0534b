import os
import subprocess
import sys

import pytest

from agents.tensorflow_messages import quiet_tensorflow
from tests.deployment.untrained import KINDS, save_run

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
from agents.tensorflow_messages import quiet_tensorflow
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
