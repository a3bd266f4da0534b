from agents.sweeps.trial_result import TrialResult, best_first


def test_trials_are_sorted_by_state_and_score():
    results = [
        TrialResult(0, "complete", -150.25, 1000, {}),
        TrialResult(1, "pruned", -900.0, 400, {}),
        TrialResult(2, "failed", None, 0, {}, "The loss is nan."),
        TrialResult(3, "complete", -120.0, 1000, {}),
        TrialResult(4, "running", None, 0, {}),
        TrialResult(5, "pruned", None, 0, {}, "The settings contradict each other."),
        TrialResult(6, "complete", -120.0, 1000, {}),
    ]
    assert [result.number for result in best_first(results)] == [3, 6, 0, 1, 5, 2, 4]
    assert best_first([]) == []


def test_folders_sort_as_their_numbers():
    names = [TrialResult(number, "running", None, 0, {}).name for number in (0, 9, 10, 123)]
    assert names == sorted(names) and names[-1] == "trial-0123"
