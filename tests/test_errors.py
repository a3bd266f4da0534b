import pytest

from agents.tools import errors


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (-9, "was killed by SIGKILL"),
        (-11, "was killed by SIGSEGV"),
        (-63, "was killed by signal 63"),
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (None, "closed its connection"),
    ],
)
def test_exit_codes_in_words(exit_code, words):
    error = errors.WorkerDiedError(exit_code, 4, 1234, 56)
    assert words in str(error)
    assert error.exit_code == exit_code


def test_says_where_and_leaves_out_what_is_not_known():
    assert str(errors.EnvironmentFailure("It broke", 4, 1234, 56)) == "It broke (environment 4, process 1234, step 56)"
    assert str(errors.EnvironmentFailure("It broke", 0, step=0)) == "It broke (environment 0, step 0)"
    assert str(errors.EnvironmentFailure("It broke")) == "It broke"


def test_an_environments_error_ends_with_its_traceback():
    error = errors.EnvironmentRaisedError("It raised", "File x, line 1\nValueError: no\n", 4, "ValueError", 1234, 56)
    first, *_, last = str(error).splitlines()
    assert first == "It raised (environment 4, process 1234, step 56)"
    assert last == "ValueError: no"
    assert (error.summary, error.type_name) == ("It raised", "ValueError")
    assert (error.env_index, error.pid, error.step) == (4, 1234, 56)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.UnsupportedSpaceError("no"), errors.UsageError),
        (errors.UsageError("no"), ValueError),
        (errors.InvalidActionError("no"), ValueError),
        (errors.WorkerTimeoutError("no"), TimeoutError),
        (errors.WorkerTimeoutError("no"), errors.EnvironmentFailure),
        (errors.WorkerDiedError(1), errors.EnvironmentFailure),
        (errors.EnvironmentRaisedError("no", "", 0, "ValueError"), errors.EnvironmentFailure),
    ],
)
def test_can_be_caught_by_kind(error, kind):
    assert isinstance(error, kind)
    assert not isinstance(error, errors.UsageError) or isinstance(error, ValueError)
