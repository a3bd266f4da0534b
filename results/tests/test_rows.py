import pytest

from results.published import Figure
from results.rows import verdict


@pytest.mark.parametrize(
    ("mean", "steps", "expected"),
    [
        (100, 1_000_000, "reached"),
        (100, 1_015_808, "reached"),
        (100, 1_500_000, "reached, but with 1.5M steps"),
        (99.9, 1_000_000, "MISSED"),
        (99.9, 100_352, "MISSED, with 100k steps"),
    ],
)
def test_verdicts(mean, steps, expected):
    assert verdict(mean, steps, Figure(100, 1_000_000)) == expected
    assert verdict(mean, steps, None) == ""
