import pytest

from agents import errors


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
def test_exit_codes_are_described(exit_code, words):
    error = errors.WorkerDiedError(exit_code, 4, 1234, 56)
    assert words in str(error)
    assert error.exit_code == exit_code


def test_messages_name_the_place_as_far_as_it_is_known():
    assert (
        str(errors.EnvironmentFailure("It broke", 4, 1234, 56))
        == "It broke (environment 4, process 1234, step 56)"
    )
    assert (
        str(errors.EnvironmentFailure("It broke", 0, step=0)) == "It broke (environment 0, step 0)"
    )
    assert str(errors.EnvironmentFailure("It broke")) == "It broke"


def test_a_raised_error_ends_with_its_traceback():
    error = errors.EnvironmentRaisedError(
        "It raised", "File x, line 1\nValueError: no\n", 4, "ValueError", 1234, 56
    )
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


def test_a_message_counts_other_failures_in_one_line():
    def raised(name, index):
        return errors.EnvironmentRaisedError("It raised", "Trace\nlast", index, name, 12, 3)

    failure = raised("KeyError", 0)
    alone = str(failure)
    assert failure.others == ()
    failure.others = (
        raised("ValueError", 1),
        errors.WorkerDiedError(-9, 2),
        raised("ValueError", 3),
        errors.WorkerDiedError(-9, 4),
        errors.WorkerTimeoutError("Too late", 5),
        errors.EnvironmentFailure("It broke", 6),
    )
    lines = str(failure).splitlines()
    assert lines[1] == (
        "Others that failed: 2 environments (ValueError), 2 processes (was killed by SIGKILL), "
        "1 process (did not reply in time), 1 environment (EnvironmentFailure)"
    )
    assert [lines[0], *lines[2:]] == alone.splitlines()
    died = errors.WorkerDiedError(3)
    died.others = (failure,)
    assert str(died).splitlines()[1:] == ["Others that failed: 1 environment (KeyError)"]
