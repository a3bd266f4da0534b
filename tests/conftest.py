import gc
import os
import signal

import pytest

from agents import compilation_cache
from agents.graph import tensor_registration
from agents.training import training_recorder

# Processes started in the background of a shell ignore these, and so would all that tests start.
for signum in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(signum) is signal.SIG_IGN:
        default = signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL
        signal.signal(signum, default)

# Programs are compiled for single use here: XLA's optimisations take longer than they save. Workers
# and commands that tests start inherit this; numbers of one process and another stay equal, since
# all of them do.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

# The user's cache is left alone, and none is as fast: hardly any program is compiled twice.
os.environ[compilation_cache.VARIABLE] = compilation_cache.OFF

may_draw = training_recorder.may_draw


@pytest.fixture(autouse=True, scope="session")
def _own_state(tmp_path_factory):
    """Keeps the modules that tests name out of the user's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _freeze_nothing():
    """Commands freeze all objects before their process ends. Here it goes on, and would keep all graphs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "freeze", lambda: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _draw_nothing():
    """Leaves out the frame strip at the end of every training, which takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_recorder, "may_draw", lambda config, envs: False)
        yield


@pytest.fixture
def tensor_registry(monkeypatch):
    """Removes the environments in TensorFlow that a test registers."""
    monkeypatch.setattr(tensor_registration, "_specs", dict(tensor_registration._specs))


@pytest.fixture(scope="module")
def frame_strips():
    """Lets trainings of a module draw frame strips and videos, as they do for users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_recorder, "may_draw", may_draw)
        yield
