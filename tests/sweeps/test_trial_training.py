import functools

import numpy as np
import pytest

from agents.errors import NonFiniteError, UsageError
from agents.sweeps.search_space import Choices, SearchSpace
from agents.sweeps.sweep import trial_run
from agents.sweeps.trial_result import COMPLETE, FAILED, PRUNED, RUNNING
from tests.sweeps.fake_training import evaluation, new_sweep, train, train_trials

RATES = SearchSpace({"learning_rate": Choices(choices=(0.001, 0.01))})


def states(sweep):
    return [result.state for result in sweep.results()]


def test_scores_are_the_last_evaluations(tmp_path):
    sweep = new_sweep(tmp_path)
    train_trials(sweep, 3, train)
    for result in sweep.results():
        expected = -abs(result.settings["learning_rate"] - 0.01)
        assert result == (
            result.number,
            COMPLETE,
            pytest.approx(expected),
            1000,
            result.settings,
            "",
        )


def test_bad_trials_are_pruned_after_a_third_of_their_steps(tmp_path):
    """Each trial after the first five is worse than all before."""
    sweep, trained = new_sweep(tmp_path, RATES, rollout_length=50), {}

    def worsening(config, run):
        number = int(run.path.name.removeprefix("trial-"))
        for step in range(100, 1001, 100):
            trained[number] = step
            yield evaluation(run, step, float(-number))

    train_trials(sweep, 7, worsening)
    assert states(sweep) == [COMPLETE] * 5 + [PRUNED] * 2
    assert list(trained.values()) == [1000] * 5 + [400] * 2
    assert sweep.results()[6][2:4] == (-6.0, 400)


def test_an_interrupt_while_a_pruned_trial_ends_leaves_it_to_be_resumed(tmp_path):
    sweep = new_sweep(tmp_path, RATES, rollout_length=50)

    def worsening(config, run, error=None):
        number = int(run.path.name.removeprefix("trial-"))
        try:
            for step in range(100, 1001, 100):
                yield evaluation(run, step, float(-number))
        except GeneratorExit:
            if error:
                raise error from None
            raise

    with pytest.raises(KeyboardInterrupt):
        train_trials(sweep, 7, functools.partial(worsening, error=KeyboardInterrupt()))
    assert states(sweep) == [COMPLETE] * 5 + [RUNNING]
    train_trials(sweep, 7, worsening)
    assert states(sweep) == [COMPLETE] * 5 + [PRUNED] * 2


def test_trials_with_other_rollout_lengths_are_compared_at_the_same_steps(tmp_path):
    """Evaluations of rollouts of 128 and 60 steps happen at 128, 256, ... and 120, 240, ..."""
    sweep = new_sweep(tmp_path)
    train_trials(sweep, 20, train)
    results = sweep.results()
    pruned = [result for result in results if result.state == PRUNED]
    assert {result.settings["rollout_length"] for result in pruned} == {30, 64}
    assert {result.step for result in pruned} <= set(range(400, 1000, 100))


def test_a_failed_trial_has_a_cause_and_the_sweep_continues(tmp_path):
    sweep = new_sweep(tmp_path)

    def failing(config, run):
        for score in train(config, run):
            yield score
            if run.path.name == "trial-0001":
                raise NonFiniteError("The loss is nan.\nMore.")

    train_trials(sweep, 3, failing)
    assert states(sweep) == [COMPLETE, FAILED, COMPLETE]
    assert sweep.results()[1].cause == "The loss is nan."
    assert "NonFiniteError: The loss is nan." in trial_run(sweep.path, 1).error_file.read_text()


def test_three_failures_before_any_score_end_the_sweep(tmp_path):
    sweep = new_sweep(tmp_path)

    def failing(config, run):
        raise UsageError("no policy for these spaces")
        yield

    with pytest.raises(UsageError, match="no policy"):
        train_trials(sweep, 10, failing)
    assert states(sweep) == [FAILED] * 3
    train_trials(sweep, 5, train)  # It was mended.
    assert states(sweep) == [FAILED] * 3 + [COMPLETE] * 2


def test_settings_that_contradict_each_other_are_pruned(tmp_path):
    space = SearchSpace(
        {
            "shared_torso": Choices(choices=(True, False)),
            "critic_learning_rate": Choices(choices=(0.0, 0.001)),
        }
    )
    sweep = new_sweep(tmp_path, space, seed=3)
    train_trials(sweep, 12, train)
    for result in sweep.results():
        is_bad = result.settings == {"shared_torso": True, "critic_learning_rate": 0.001}
        assert (result.state == PRUNED and result.score is None) == is_bad
        assert bool(result.cause) == is_bad
    assert PRUNED in states(sweep)


def test_a_trial_that_was_complete_when_its_process_was_killed_gets_its_score(tmp_path):
    sweep = new_sweep(tmp_path)
    with pytest.raises(ZeroDivisionError):  # As if it were killed between training and its record.
        with sweep.claimed(1) as trial:
            scores = list(train(sweep.trial_config(trial), trial.run))
            raise ZeroDivisionError
    train_trials(sweep, 1, lambda config, run: (yield from ()))
    [result] = sweep.results()
    assert result.state == COMPLETE and result.score == scores[-1]


def test_a_score_that_the_disk_had_no_room_for_counts(tmp_path):
    sweep = new_sweep(tmp_path)

    def losing(config, run):
        for score in train(config, run):
            if score.step >= config.steps:
                lines = run.metrics_file.read_text().splitlines(keepends=True)
                run.metrics_file.write_text("".join(lines[:-1]))
            yield score

    train_trials(sweep, 1, losing)
    [result] = sweep.results()
    assert result.state == COMPLETE
    assert result.score == pytest.approx(-abs(result.settings["learning_rate"] - 0.01))


def test_a_complete_trial_without_any_score_fails(tmp_path):
    sweep = new_sweep(tmp_path)

    def silent(config, run):
        run.prepare(config)
        yield from ()

    train_trials(sweep, 1, silent)
    [result] = sweep.results()
    assert result.state == FAILED and result.cause.endswith("metrics.jsonl has no evaluation")


def test_the_sampler_finds_good_settings(tmp_path):
    sweep = new_sweep(tmp_path, eval_interval=1000)
    train_trials(sweep, 30, train)
    rates = [result.settings["learning_rate"] for result in sweep.results()]
    distance = np.abs(np.log10(rates) + 2)  # Of the best learning rate, in orders of magnitude.
    assert np.median(distance[20:]) < 0.5 * np.median(distance[:10])
