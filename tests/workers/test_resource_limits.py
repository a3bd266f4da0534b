import errno
import os

import pytest

from agents.errors import WorkerStartError
from agents.workers.spawner import explaining_limits


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EMFILE, r"may open \d+ files \(`ulimit -n`\)"),
        (errno.ENFILE, r"may open \d+ files \(`ulimit -n`\)"),
        (errno.EAGAIN, r"may run .* processes and threads \(`ulimit -u`\)"),
        (errno.EFBIG, r"may write .* bytes to a file \(`ulimit -f`\)"),
        (errno.ENOMEM, "not enough memory"),
    ],
)
def test_limits_of_the_system_are_explained_in_three_lines(number, advice):
    with pytest.raises(WorkerStartError, match=advice) as caught:
        with explaining_limits(12):
            # The outer context knows how many were asked for.
            with explaining_limits():
                raise OSError(number, os.strerror(number))
    assert "(12 were asked for)" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3
    assert caught.value.__cause__.errno == number


@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "gone"), ValueError("other")])
def test_other_errors_stay_as_they_are(error):
    with pytest.raises(type(error)) as caught, explaining_limits():
        raise error
    assert caught.value is error
