import ctypes
import os
import subprocess
import sys

import pytest

from agents.tensorflow_messages import quiet_tensorflow, without_loading_messages
from tests.deployment.untrained import KINDS, save_run

START_UP_MESSAGES = [
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1 port.cc:153] oneDNN custom operations are on. You may see slightly different numerical results",
    "E0000 00:00:1 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error",
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


@pytest.mark.parametrize(
    "fault",
    ["os.close(2)", "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"],
)
def test_a_closed_stderr_or_no_temporary_folder_is_no_error(fault):
    code = f"""
import os, resource
from agents.tensorflow_messages import quiet_tensorflow
{fault}
with quiet_tensorflow():
    print("imported")
"""
    process = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout == "imported\n"


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


def test_only_messages_of_loading_are_dropped_from_what_c_writes(capfd):
    library = ctypes.CDLL(None)
    stderr = ctypes.c_void_p.in_dll(library, "stderr")
    lines = [
        b"E0000 text_format.cc:1] Error parsing text-format tensorflow.XlaSerializedCacheEntry: 2:1",
        b"E0000 cpu_aot_loader.cc:2] Target machine feature +prefer-no-gather is not supported",
        b"E0000 cpu_aot_loader.cc:2] Target machine feature +avx512f is not supported",
    ]
    for _ in range(2):
        with without_loading_messages():
            for line in lines:
                library.fputs(line + b"\n", stderr)
            print("in Python", file=sys.stderr, flush=True)
            subprocess.run(["sh", "-c", "echo in a child >&2"], check=True)
            assert capfd.readouterr().err == "in Python\nin a child\n"  # At once.
        assert capfd.readouterr().err == f"{lines[2].decode()}\n"
    with pytest.raises(OSError, match="no disk"), without_loading_messages():
        library.fputs(b"why it failed\n", stderr)
        raise OSError("no disk")
    library.fputs(b"afterwards\n", stderr)
    assert capfd.readouterr().err == "why it failed\nafterwards\n"


def test_threads_whose_calls_overlap_leave_stderr_as_it_was(capfd):
    library = ctypes.CDLL(None)
    first, second = without_loading_messages(), without_loading_messages()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    library.fputs(b"afterwards\n", ctypes.c_void_p.in_dll(library, "stderr"))
    assert capfd.readouterr().err == "afterwards\n"
