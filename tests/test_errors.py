import warnings

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
    failure = errors.EnvironmentFailure("It broke", 0, step=0)
    assert str(failure) == "It broke (environment 0, step 0)"
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


TRACEBACK = """Traceback (most recent call last):
  File "/a/first.py", line 1, in <module>
    one()
ValueError: the cause

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/a/wrapper.py", line 3, in step
    return self.env.step(action)
           ^^^^^^^^^^^^^^^^^^^^^
  File "/a/frozen.py", line 5, in lacks_its_code
  File "/a/env.py", line 7, in step
    1 / 0
    ~~^~~
ZeroDivisionError: division by zero
"""


def test_the_description_of_an_error_ends_with_frames_of_the_environment():
    error = errors.EnvironmentRaisedError("It raised", TRACEBACK, 4, "ZeroDivisionError", 12, 56)
    frames = [
        '  File "/a/wrapper.py", line 3, in step',
        "    return self.env.step(action)",
        '  File "/a/frozen.py", line 5, in lacks_its_code',
        '  File "/a/env.py", line 7, in step',
        "    1 / 0",
    ]
    first = "It raised (environment 4, process 12, step 56)"
    assert errors.describe_error(error, 9) == [first, *frames]
    assert errors.describe_error(error, 3) == [first, *frames[-2:]]
    error.others = (errors.WorkerDiedError(-9, 2),)
    assert errors.describe_error(error, 4)[1].startswith("Others that failed: 1 process")


@pytest.mark.parametrize(
    "message", ["a\n" * 1000, "a" * 10_000, "", "one\ntwo"], ids=["lines", "line", "none", "two"]
)
@pytest.mark.parametrize(
    "make",
    [
        errors.UsageError,
        errors.NonFiniteError,
        errors.EnvironmentFailure,
        lambda message: errors.EnvironmentRaisedError(message, TRACEBACK * 9, 0, "KeyError"),
    ],
    ids=["usage", "nonfinite", "failure", "raised"],
)
def test_descriptions_of_errors_are_short(make, message):
    for max_lines in (3, 9):
        lines = errors.describe_error(make(message), max_lines)
        assert len(lines) <= max_lines
        assert all(len(line) <= errors.MAX_LINE_LENGTH and "\n" not in line for line in lines)


def test_the_first_line_of_an_error():
    assert errors.first_line(ValueError("one\ntwo")) == "one"
    assert errors.first_line(ValueError()) == "ValueError"
    assert len(errors.first_line(ValueError("a" * 10_000))) == errors.MAX_LINE_LENGTH


@pytest.mark.parametrize(
    ("category", "shown"),
    [(UserWarning, "warning: careful\n"), (RuntimeWarning, ":15: RuntimeWarning: careful\n")],
)
def test_only_users_warnings_are_shown_without_their_place(category, shown, monkeypatch, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", errors.show_warning)
        warnings.warn_explicit("careful", category, "module.py", 15)
    assert capsys.readouterr().err.endswith(shown)
