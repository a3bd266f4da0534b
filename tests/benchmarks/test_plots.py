import pytest

from benchmarks.plots import plot_suite

RESULTS = {
    "Pendulum-v1/process/32": {
        "ours": {"median": 24.0, "min": 1.5, "max": 123456.0, "unit": "steps/s"},
        "AsyncVectorEnv": {"median": 2.0, "min": 1.0, "max": 3.0, "unit": "steps/s"},
        "ratio_AsyncVectorEnv": 12.0,
        "limit": 30.0,
        "of_limit": 0.8,
    }
}


@pytest.mark.parametrize("suite", ["stepping", "scaling"])
def test_every_suite_is_plotted(suite, tmp_path):
    path = plot_suite(suite, "Title", RESULTS, tmp_path / "plots")
    assert path == tmp_path / "plots" / f"{suite}.png"
    assert path.read_bytes().startswith(b"\x89PNG")
