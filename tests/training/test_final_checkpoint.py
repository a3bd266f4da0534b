"""Training that is interrupted: what is saved, and what it resumes to."""

import signal

import pytest

from agents.runs.checkpoint import Checkpoints
from agents.runs.run_directory import RunDirectory
from agents.settings.config_file import load_config
from agents.stop_signals import StopRequested
from agents.training import training_loop as loop_module
from agents.training.training_loop import FinalCheckpoint, training_loop
from agents.vector.batch_env import BatchEnv
from tests.faulty_toys import FaultyEnv
from tests.fingerprint import fingerprint
from tests.toys import FORCE, UNBOUNDED, RandomEnv
from tests.training.learners import TINY, logged, make_learner, make_random_env

INTERVALS = {
    "steps": 64, "log_interval": 16, "checkpoint_interval": 32, "eval_interval": 32,
    "histogram_interval": 0, "epochs": 1, "noise_correlation": 0.5,
}  # fmt: skip


def make_env():
    return FaultyEnv(RandomEnv(UNBOUNDED, FORCE, durations=(5, 5), ending="truncated"))


def start(run, train_envs=None, eval_envs=None):
    config = load_config("default", **{**TINY, **INTERVALS})
    train_envs = train_envs or [make_env() for _ in range(config.num_envs)]
    eval_envs = eval_envs or [make_env() for _ in range(config.eval_episodes)]
    batches = (BatchEnv(envs, blocking=True) for envs in (train_envs, eval_envs))
    return training_loop(config, run, *batches)


def interrupted(run, method, calls):
    """Trains until an environment is interrupted; returns which steps were saved."""
    envs = [make_env() for _ in range(3)]
    envs[1].fault, envs[1].countdown = StopRequested(signal.SIGINT), calls
    batches = (envs[:2], None) if method == "iterate" else (None, envs)
    with pytest.raises(KeyboardInterrupt):
        list(start(run, *batches))
    return sorted(int(path.stem[5:]) for path in run.checkpoints.glob("step-*.npz"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never stopped."""
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "whole")
    return list(start(run)), logged(run)


def test_an_interrupted_rollout_is_lost_and_the_iterations_before_are_saved(tmp_path):
    run = RunDirectory(tmp_path)
    assert interrupted(run, "iterate", 8 + 8 + 8 + 3) == [32, 48]


def test_a_rollout_after_a_scheduled_checkpoint_resumes_as_if_never_stopped(whole, tmp_path):
    run = RunDirectory(tmp_path)
    assert interrupted(run, "iterate", 8 + 8 + 3) == [32]
    assert list(start(run)) == whole[0][1:]
    assert logged(run) == whole[1]


@pytest.mark.parametrize("evaluation", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_an_interrupted_evaluation_is_repeated(whole, tmp_path, evaluation):
    run = RunDirectory(tmp_path)
    # In each evaluation an environment makes 50 steps.
    saved = interrupted(run, "evaluate", 50 * (evaluation - 1) + 3)
    assert saved[-1] == 32 * evaluation
    assert list(start(run)) == whole[0][evaluation - 1 :]
    assert logged(run) == whole[1]


@pytest.mark.slow
def test_an_interrupt_while_saving_lets_a_scheduled_checkpoint_be_saved_again(
    whole, tmp_path, monkeypatch
):
    run, save, calls = RunDirectory(tmp_path), Checkpoints.save, []

    def interrupted_save(self, *args, **kwargs):
        calls.append((*args, kwargs.get("best", False)))
        if len(calls) == 2:  # The first is the best checkpoint.
            raise KeyboardInterrupt
        return save(self, *args, **kwargs)

    monkeypatch.setattr(loop_module.Checkpoints, "save", interrupted_save)
    with pytest.raises(KeyboardInterrupt):
        list(start(run))
    assert calls == [(32, True), (32, False), (32, False)]
    assert list(start(run)) == whole[0][1:]
    assert logged(run) == whole[1]


@pytest.fixture(scope="module")
def learner():
    return make_learner(
        lambda: FaultyEnv(make_random_env(UNBOUNDED, FORCE)),
        recurrent="gru",
        noise_correlation=0.5,
    )


def test_an_interrupted_rollout_changes_no_variable(learner):
    learner.iterate()
    before = fingerprint(learner.variables())
    env = learner.train_envs[1]
    env.fault, env.countdown = StopRequested(signal.SIGINT), 5
    with pytest.raises(KeyboardInterrupt):
        learner.iterate()
    assert fingerprint(learner.variables()) != before
    learner.undo_rollout()
    assert fingerprint(learner.variables()) == before
    learner.begin_episodes()
    learner.iterate()
    after = fingerprint(learner.variables())
    learner.undo_rollout()  # Nothing was interrupted.
    assert fingerprint(learner.variables()) == after


class Folder:
    """Records what is saved."""

    def __init__(self):
        self.saved = []

    def save(self, step, best=False):
        self.saved.append(step)

    def check_in_place(self):
        """It has no place."""


def test_scheduled_checkpoints_are_not_replaced(learner):
    folder = Folder()
    with pytest.raises(KeyboardInterrupt), FinalCheckpoint(learner, folder, learner.step):
        raise KeyboardInterrupt
    assert folder.saved == []
    with pytest.raises(ZeroDivisionError), FinalCheckpoint(learner, folder, None):
        raise ZeroDivisionError
    assert folder.saved == []
    with pytest.raises(KeyboardInterrupt), FinalCheckpoint(learner, folder, None):
        raise KeyboardInterrupt
    assert folder.saved == [learner.step]
