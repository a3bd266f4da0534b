import json

from benchmarks.page import FILES, page, read
from benchmarks.report import _case_rows
from benchmarks.runner import ROOT


def test_the_page_is_that_of_the_stored_figures():
    """`python scripts/benchmark.py --report` on the committed files gives the committed page."""
    text = page(*read(ROOT / "benchmarks"))
    assert text == (ROOT / "BENCHMARKS.md").read_text()


def test_the_details_have_every_stored_figure():
    details = (ROOT / "benchmarks" / "details.md").read_text().splitlines()
    results, origins = read(ROOT / "benchmarks")
    for cases in results.values():
        for case, entry in cases.items():
            assert set(_case_rows(case, entry)) <= set(details), case
    assert set(origins) == set(results)


def test_a_peer_that_is_faster_is_listed(tmp_path):
    """A change of one figure changes the tables and the list of losses."""
    for name in FILES:
        content = json.loads((ROOT / "benchmarks" / name).read_text())
        if case := content.get("images", {}).get("Pong/8"):
            case |= {"ratio_CleanRL": 0.5}
            case["CleanRL"] |= {"median": 2000.0}
        (tmp_path / name).write_text(json.dumps(content))
    text = page(*read(tmp_path)).replace("\N{NO-BREAK SPACE}", " ")
    assert "CleanRL 2,000 (0.5x)" in text
    assert "- CleanRL, images: Pong/8 (0.5x)." in text.splitlines()
