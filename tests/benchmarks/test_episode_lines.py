import pytest

from benchmarks.episode_lines import episode_line, read_episode


def test_lines_keep_all_digits():
    line = episode_line(7, 0.1 + 0.2)
    assert line == "global_step=7, episodic_return=0.30000000000000004"
    assert read_episode(line) == (7, 0.1 + 0.2)


@pytest.mark.parametrize(
    ("line", "episode"),
    [
        ("global_step=200, episodic_return=[-2.5e1]\n", (200, -25.0)),
        ("global_step=200, episodic_return=[ 3.]", (200, 3.0)),
        ("global_step=5, episodic_return=2", (5, 2.0)),
        ("SPS: 20", None),
        ("", None),
    ],
)
def test_lines_of_cleanrl_are_read(line, episode):
    assert read_episode(line) == episode
