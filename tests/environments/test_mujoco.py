import gymnasium
import numpy as np
import pytest

from agents.environments.registration import make_env

mujoco = pytest.importorskip("mujoco")


@pytest.fixture(autouse=True)
def no_handler():
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(None)
    yield
    mujoco.set_mju_user_warning(before)


def make():
    return make_env(gymnasium.spec("HalfCheetah-v5"), {})


def test_warnings_are_those_of_python_and_write_no_file(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    env = make()
    env.reset(seed=0)
    env.unwrapped.set_state(np.full(9, 1e12), np.zeros(9))
    with pytest.warns(RuntimeWarning, match=r"MuJoCo: Nan, Inf or huge value in QPOS.*unstable"):
        env.step(np.zeros(6, np.float32))
    env.close()
    output = capfd.readouterr()
    assert output.out + output.err == ""
    assert not list(tmp_path.iterdir())


def test_a_handler_of_the_program_stays():
    messages = []
    mujoco.set_mju_user_warning(messages.append)
    make().close()
    assert mujoco.get_mju_user_warning() == messages.append
