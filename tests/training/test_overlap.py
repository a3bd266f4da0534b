"""Iterations in which the next rollout is collected while the last one is learned from."""

import contextlib
import functools
import signal
import threading
import time
from concurrent.futures import Future

import numpy as np
import pytest
import tensorflow as tf

from agents.errors import EnvironmentFailure, UsageError
from agents.graph.algorithm import Algorithm
from agents.ppo import PPO
from agents.ppo.batch import Batch
from agents.settings.config_file import load_config
from agents.stop_signals import StopRequested
from agents.storage.checkpoint import fingerprint
from agents.storage.metrics_file import read_metrics
from agents.storage.run_directory import RunDirectory
from agents.training.iteration import Iteration
from agents.training.learner import Learner
from agents.training.overlap import Overlap
from agents.training.training_loop import training_loop
from agents.vector.batch_env import BatchEnv
from agents.vector.process_batch import make_batch_env
from tests.faulty_toys import FaultyEnv
from tests.toys import FORCE, UNBOUNDED, RandomEnv
from tests.training.learners import IMAGE, TINY, make_learner, make_random_env

# What learns and acts in different ways.
SETTINGS = {
    "feed-forward": {"critic_learning_rate": 0.01, "kl_stop": 0.05},
    "gru": {
        "recurrent": "gru",
        "noise_correlation": 0.5,
        "normalize_value": True,
        "objective": "clip_kl",
        "learning_rate_schedule": "kl",
        "on_nonfinite": "skip",
    },
}


def make_overlapping(make_env=lambda: make_random_env(UNBOUNDED, FORCE), **settings):
    return make_learner(make_env, overlap=True, **settings)


class Eager:
    """An executor that runs what is submitted at once, in the calling thread."""

    def submit(self, function, *args):
        future = Future()
        try:
            future.set_result(function(*args))
        except BaseException as error:
            future.set_exception(error)
        return future


class Lazy:
    """An executor that runs what is submitted when its result is asked for."""

    def submit(self, function, *args):
        class LazyFuture(Future):
            def result(self, timeout=None):
                return function(*args)

        future = LazyFuture()
        future.set_result(None)
        return future


class Calls:
    """Graph calls that record themselves; the rollouts are numbers."""

    def __init__(self, num_rollouts=3):
        self.made, self.failure = [], None
        self.remaining = num_rollouts
        self.overlap = Overlap(
            lambda: self.made.append("hand over"),
            self.collect,
            self.learn,
            lambda: self.remaining == 0,
            convolves=False,
        )

    def collect(self):
        self.remaining -= 1
        self.made.append("collect")
        if self.failure:
            raise self.failure
        return self.made.count("collect")

    def learn(self, rollout):
        time.sleep(0.05)
        assert threading.current_thread() is not threading.main_thread()
        self.made.append(f"learn {rollout}")
        return Iteration(*[rollout] * len(Iteration._fields))


# Overlap.


def test_the_next_rollout_is_collected_while_the_last_one_is_learned_from():
    calls = Calls()
    results = []
    for iteration in range(3):
        calls.made.append(f"iteration {iteration}")
        start = time.time()
        results.append(calls.overlap.iterate())
        assert start - 0.01 <= float(results[-1].collected) <= time.time()
    assert [result.done for result in results] == [1, 2, 3]
    assert calls.made == [
        "iteration 0", "hand over", "collect", "hand over", "learn 1", "collect",
        "iteration 1", "hand over", "collect", "learn 2",
        "iteration 2", "hand over", "learn 3",
    ]  # fmt: skip


def test_a_forgotten_rollout_is_not_learned_from():
    calls = Calls(num_rollouts=10)
    calls.overlap.iterate()
    calls.overlap.forget()
    calls.made.clear()
    assert calls.overlap.iterate().done == 1
    assert calls.made[:3] == ["hand over", "collect", "hand over"]


def test_a_failure_of_the_environments_is_raised_once_the_update_has_ended():
    calls = Calls(num_rollouts=10)
    calls.overlap.iterate()
    calls.failure = EnvironmentFailure("environment 1 failed")
    with pytest.raises(EnvironmentFailure, match="environment 1"):
        calls.overlap.iterate()
    assert calls.made[-1] == "learn 2"


def test_a_failure_of_the_update_is_raised():
    calls = Calls()
    calls.overlap._learn = lambda rollout: 1 / 0
    with pytest.raises(ZeroDivisionError):
        calls.overlap.iterate()
    calls.overlap.wait()


# Learners.


@pytest.mark.parametrize(
    "settings",
    [SETTINGS["feed-forward"], pytest.param(SETTINGS["gru"], marks=pytest.mark.slow)],
    ids=SETTINGS,
)
def test_results_do_not_depend_on_which_of_the_two_is_faster(settings):
    """No variable that learning assigns is read by acting meanwhile, nor the other way around."""
    results = []
    for executor in (None, Eager(), Lazy()):
        learner = make_overlapping(checkpoint_interval=64, steps=1000, **settings)
        learner._overlap._thread = executor or learner._overlap._thread
        for iteration in range(7):
            if iteration == 4:
                learner.begin_episodes()
            learner.iterate()
        results.append(fingerprint(learner.variables()))
    assert results[0] == results[1] == results[2]


def test_images_learn_meanwhile_too():
    learner = make_overlapping(lambda: make_random_env(IMAGE), network="nature")
    weights = fingerprint(learner.variables())
    for _ in range(3):
        learner.iterate()
    assert learner.step == 3 * 16 and fingerprint(learner.variables()) != weights


def log_prob_of_arrays(learner, values):
    """Log-probabilities of the last rollout's samples, by a policy with the given values."""
    arrays = learner.arrays()
    policy = make_overlapping()._algorithm.policy
    for name, variable in policy.variables().items():
        variable.assign(values[name])
    inputs = policy.normalize({"vector": tf.constant(arrays["rollout/observ"])})
    distribution, _ = policy.network.policy(inputs, {})
    return distribution.log_prob(tf.constant(arrays["rollout/action"])).numpy()


def values_of(variables):
    return {name: variable.numpy() for name, variable in variables.items()}


def test_a_rollout_is_weighted_as_of_the_policy_of_one_iteration_before():
    learner = make_overlapping(learning_rate=0.05, checkpoint_interval=10**6, steps=10**6)
    before = []
    for iteration in range(4):
        before.append(values_of(learner.variables()))
        learner.iterate()
        # The update uses the weights from before it, and the statistics with its rollout.
        statistics = values_of(learner._algorithm.policy.observ_normalizer.variables())
        proximal = {f"normalize_observ/{name}": value for name, value in statistics.items()}
        log_prob = log_prob_of_arrays(learner, before[-1] | proximal)
        arrays = learner.arrays()
        np.testing.assert_allclose(arrays["rollout/log_prob"], log_prob, atol=1e-4)
        behavior = before[max(iteration - 1, 0)]  # Nothing was learned beside the first one.
        ratio = np.exp(log_prob - log_prob_of_arrays(learner, behavior))
        importance = arrays["rollout/importance"]
        np.testing.assert_allclose(importance, np.minimum(ratio, 1), atol=1e-4)
        assert iteration == 0 or importance.min() < 0.99


def test_weights_scale_standardized_advantages():
    learner = make_overlapping()
    learner.iterate()
    loss = learner._algorithm._loss
    batch = Batch(*[()] * len(Batch._fields))._replace(
        advantage=tf.constant([3.0, 1.0, 2.0, 2.0]), importance=tf.constant([0.5, 1.0, 0.0, 1.0])
    )
    weighted = loss.advantages(batch, tf.constant([[1, 0], [2, 3]]))
    np.testing.assert_allclose(weighted, [[-1.0, 0.5], [0.0, 0.0]], atol=1e-6)


def test_rollouts_are_learned_from_in_order_and_once():
    learner = make_overlapping(checkpoint_interval=64, steps=1000)
    seen = []
    for iteration in range(8):
        if iteration == 4:
            learner.begin_episodes()
        learner.iterate()
        seen.append(learner.arrays()["rollout/reward"].reshape(8, 2))
    for row, env in enumerate(learner.train_envs):
        rewards = [step.reward for step in env.history if step.reward is not None]
        np.testing.assert_allclose(np.concatenate(seen)[:, row], rewards[: 8 * 8], rtol=1e-6)


def test_a_failing_environment_leaves_a_finished_update():
    learner = make_overlapping(lambda: FaultyEnv(make_random_env(UNBOUNDED, FORCE)))
    learner.iterate()
    env = learner.train_envs[1]
    env.fault, env.countdown = StopRequested(signal.SIGINT), 5
    with pytest.raises(KeyboardInterrupt):
        learner.iterate()
    assert learner.step == 32
    before = fingerprint(learner.variables())
    learner.undo_rollout()
    assert fingerprint(learner.variables()) == before
    learner.begin_episodes()
    learner.iterate()
    assert learner.step == 48


def test_the_time_of_an_iteration_is_shared_out():
    learner = make_overlapping()
    for _ in range(3):
        learner.iterate()
    scalars = learner.report()
    times = {name: scalars[f"time/{name}"] for name in ("environments", "acting", "learning")}
    assert 0.5 < sum(times.values()) <= 1 and all(share >= 0 for share in times.values())


class OneAfterTheOther(PPO):
    """An algorithm that does not say how to learn while it acts."""

    hand_over = Algorithm.hand_over


def test_an_algorithm_that_can_not_is_refused():
    config = load_config("default", **TINY, overlap=True)
    envs = BatchEnv([make_random_env(UNBOUNDED, FORCE) for _ in range(2)], blocking=True)
    with pytest.raises(UsageError, match="overlap: OneAfterTheOther can't learn while it acts"):
        Learner(envs, None, OneAfterTheOther, config)


# Runs.


def start(run, train_envs):
    intervals = {"log_interval": 16, "eval_interval": 48, "checkpoint_interval": 64}
    config = load_config("default", **TINY, **intervals, steps=192, overlap=True)
    eval_envs = [
        RandomEnv(UNBOUNDED, FORCE, durations=(5, 5), ending="truncated") for _ in range(3)
    ]
    batches = (BatchEnv(envs, blocking=True) for envs in (train_envs, eval_envs))
    return training_loop(config, run, *batches)


def make_envs():
    return [
        FaultyEnv(RandomEnv(UNBOUNDED, FORCE, durations=(5, 5), ending="truncated"))
        for _ in range(2)
    ]


def losses(run):
    return [
        {tag: value for tag, value in row.items() if tag.startswith(("losses/", "episode/"))}
        for row in read_metrics(run.metrics_file)
    ]


@pytest.mark.parametrize(
    "calls, saved",
    [
        (32 + 1 + 3, [64]),  # In the first rollout after a scheduled checkpoint.
        # In the second, beside the update of the first.
        pytest.param(32 + 1 + 8 + 3, [64, 80], marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_resumes_from_its_last_finished_update(tmp_path, calls, saved):
    whole, stopped = (RunDirectory(tmp_path / name) for name in ("whole", "stopped"))
    list(start(whole, make_envs()))
    envs = make_envs()
    envs[1].fault, envs[1].countdown = StopRequested(signal.SIGINT), calls
    with pytest.raises(KeyboardInterrupt):
        list(start(stopped, envs))
    assert sorted(int(path.stem[5:]) for path in stopped.checkpoints.glob("step-*.npz")) == saved
    list(start(stopped, make_envs()))
    if len(saved) == 1:
        assert losses(stopped) == losses(whole)
    assert read_metrics(stopped.metrics_file)[-1]["step"] == 192


@pytest.mark.parametrize(
    "settings",
    [SETTINGS["feed-forward"], pytest.param(SETTINGS["gru"], marks=pytest.mark.slow)],
    ids=SETTINGS,
)
def test_rollouts_in_turns_are_collected_by_the_policy_that_acts(settings):
    """As in lockstep, whichever of acting and learning is faster."""
    results = []
    for wait_for, executor in ((1.0, None), (0.5, None), (0.5, Eager()), (0.5, Lazy())):
        with overlapping_in_processes(wait_for, **settings) as learner:
            learner._overlap._thread = executor or learner._overlap._thread
            for _ in range(4):
                learner.iterate()
            results.append(fingerprint(learner.variables()))
    assert len(set(results)) == 1


@contextlib.contextmanager
def overlapping_in_processes(wait_for, **settings):
    config = load_config(
        "default", **{**TINY, "overlap": True, "steps": 1000, "wait_for": wait_for, **settings}
    )
    make_env = functools.partial(RandomEnv, UNBOUNDED, FORCE, durations=(5, 5), ending="truncated")
    with contextlib.ExitStack() as stack:
        train_envs, eval_envs = (
            stack.enter_context(
                contextlib.closing(make_batch_env([make_env] * count, 2, wait_for=wait_for))
            )
            for count in (config.num_envs, config.eval_episodes)
        )
        learner = Learner(train_envs, eval_envs, PPO, config)
        learner.begin_episodes()
        yield learner
