"""Several learners, each in its part of the environments, equal one in all of them."""

import functools

import numpy as np
import pytest

from agents.errors import NonFiniteError
from agents.learning.reduction import SINGLE_LEARNER
from agents.ppo import PPO
from agents.settings.config_file import load_config
from agents.tensor_envs import InGraphTensorEnv
from agents.training import training_loop
from agents.training.learner import Learner
from agents.vector.batch_env import BatchEnv
from agents.workers.host import LocalHost
from tests.faulty_toys import FaultyEnv
from tests.fingerprint import fingerprint
from tests.tensor_toys import LearnerGroup, RandomTensorEnv
from tests.toys import UNBOUNDED, RandomEnv
from tests.training.learners import TINY

NUM_ENVS, STEPS = 4, 4 * 8  # Of an iteration.
SETTINGS = {
    **TINY,
    "num_envs": NUM_ENVS,
    "minibatch_size": STEPS,  # Shuffling makes no difference.
    "steps": 3 * STEPS,
    "info_keys": ("level",),
}


def info(steps):
    return {"level": float(steps)}


def make_env(index):
    """An environment whose observations and lengths of episodes are its own."""
    return RandomEnv(UNBOUNDED, mean=index, durations=(index + 1, index + 2), info=info)


def make_envs(reducer, wrap=lambda env: env, **restarts):
    own = np.split(np.arange(NUM_ENVS), reducer.num_learners)[reducer.rank]
    hosts = [
        LocalHost(lambda index=index: wrap(make_env(index)), row) for row, index in enumerate(own)
    ]
    return BatchEnv(hosts, blocking=True, info_keys=("level",), **restarts)


def make_learner(reducer=SINGLE_LEARNER, envs=None, **overrides):
    config = load_config("default", **{**SETTINGS, **overrides})
    learner = Learner(envs or make_envs(reducer), None, PPO, config, reducer)
    learner.begin_episodes()
    return learner


def run_all(group, learners, method):
    """Calls a method of all learners at the same time."""
    return group.run(*(functools.partial(method, learner) for learner in learners))


def test_all_learners_are_one_in_all_environments():
    group = LearnerGroup()
    learners, whole = [make_learner(one) for one in group.reducers], make_learner()
    for iteration in range(3):
        run_all(group, learners, Learner.iterate)
        LearnerGroup(1).run(whole.iterate)
        assert {one.step for one in (whole, *learners)} == {(iteration + 1) * STEPS}
        first, other = (learner.variables() for learner in learners)
        assert fingerprint(first) == fingerprint(other)
        for name, variable in whole.variables().items():
            np.testing.assert_allclose(first[name], variable, rtol=5e-3, atol=1e-4, err_msg=name)
        if iteration == 1:  # As behind a checkpoint.
            for learner in (whole, *learners):
                learner.begin_episodes()
    expected, *reports = (one.report() for one in (whole, *learners))
    assert "info/level" in expected
    for report in reports:
        assert report.keys() == expected.keys()
        for tag, number in expected.items():
            if not tag.startswith(("time/", "perf/")):
                np.testing.assert_allclose(report[tag], number, 5e-3, 1e-3, err_msg=tag)
    assert reports[0]["losses/policy"] == reports[1]["losses/policy"]


def make_faulty(group, **overrides):
    """Learners of which the second gets NaN in the third environment of all, in a fifth step."""
    envs = [RandomTensorEnv((9, 9), fault_at=5 * rank, fault_row=0) for rank in range(2)]
    learners = [
        make_learner(reducer, InGraphTensorEnv(env, NUM_ENVS // 2), info_keys=(), **overrides)
        for reducer, env in zip(group.reducers, envs, strict=True)
    ]
    return envs, learners


def test_all_learners_name_the_environment_of_a_number_that_is_not_finite():
    group = LearnerGroup()
    _, learners = make_faulty(group)

    def fail(learner):
        with pytest.raises(NonFiniteError) as raised:
            learner.iterate()
        return str(raised.value)

    one, other = run_all(group, learners, fail)
    assert one == other
    assert "The reward of environment 2 is nan at step 4 of the rollout" in one


def test_all_learners_skip_the_update_that_one_can_not_make():
    group = LearnerGroup()
    envs, learners = make_faulty(group, on_nonfinite="skip", steps=10 * STEPS)
    envs[1].fault.assign(0.0)
    run_all(group, learners, Learner.iterate)
    before = fingerprint(weights(learners[0]))
    envs[1].fault.assign(np.inf)
    with pytest.warns(UserWarning, match="reward of environment 2 is inf"):
        run_all(group, learners, Learner.iterate)
    assert [learner.step for learner in learners] == [2 * STEPS] * 2
    assert [fingerprint(weights(learner)) for learner in learners] == [before] * 2
    assert fingerprint(learners[0].variables()) == fingerprint(learners[1].variables())
    envs[1].fault.assign(0.0)
    run_all(group, learners, Learner.iterate)
    assert fingerprint(weights(learners[0])) != before


def weights(learner):
    return {
        name: variable
        for name, variable in learner.variables().items()
        if name.startswith(("network/", "optimizer/", "normalize"))
    }


# Learners that are not the chief.


@pytest.fixture
def followers(monkeypatch):
    """The learners that `follow` creates."""
    created = []

    class Recorded(Learner):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.begun = []
            created.append(self)

        def begin_episodes(self):
            self.begun.append(self.step)
            super().begin_episodes()

    monkeypatch.setattr(training_loop, "Learner", Recorded)
    return created


def lead(learner, reducer):
    """What the chief does from where it is to the end."""
    reducer.copy_from_chief(learner.variables())
    learner.begin_episodes()
    while learner.step < SETTINGS["steps"]:
        learner.iterate()
        if learner.due(2 * STEPS):
            learner.begin_episodes()


@pytest.mark.parametrize("done", [0, 1])
def test_a_follower_trains_along_with_the_chief(followers, done):
    group = LearnerGroup()
    chief = make_learner(group.reducers[0])
    if done:  # It resumes a run.
        for name, variable in weights(chief).items():
            if name.startswith("network/"):
                variable.assign(variable + 0.25)
        chief.variables()["algorithm/steps"].assign(done * STEPS)
    config = load_config("default", **SETTINGS, checkpoint_interval=2 * STEPS)
    group.run(
        lambda: lead(chief, group.reducers[0]),
        lambda: training_loop.follow(config, make_envs(group.reducers[1]), group.reducers[1]),
    )
    [follower] = followers
    assert follower.step == chief.step == 3 * STEPS
    assert fingerprint(follower.variables()) == fingerprint(chief.variables())
    assert follower.begun == [done * STEPS, 2 * STEPS, 3 * STEPS]


def test_a_follower_tells_of_restarts(followers):
    group = LearnerGroup()
    config = load_config("default", **SETTINGS)
    countdowns = [20, 0]

    def wrap(env):
        return FaultyEnv(env, OSError("no luck"), countdowns.pop() if countdowns else 0)

    envs = [
        make_envs(group.reducers[0], restart_limit=3),
        make_envs(group.reducers[1], wrap, restart_limit=3),
    ]
    with pytest.warns(UserWarning) as caught:
        group.run(
            lambda: lead(make_learner(group.reducers[0], envs[0]), group.reducers[0]),
            lambda: training_loop.follow(config, envs[1], group.reducers[1]),
        )
    [message] = {str(one.message) for one in caught if "learner" in str(one.message)}
    assert "learner 1 restarted environments 1: " in message and "no luck" in message


def test_the_error_of_the_chief_ends_a_follower(followers):
    group = LearnerGroup()
    config = load_config("default", **SETTINGS)

    def fail():
        group.reducers[0].copy_from_chief(make_learner(group.reducers[0]).variables())
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        group.run(
            fail,
            lambda: training_loop.follow(config, make_envs(group.reducers[1]), group.reducers[1]),
        )
    assert followers[0].step == 0
