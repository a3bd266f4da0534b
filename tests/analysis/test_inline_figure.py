import subprocess
import sys

import pytest

DISPLAY = """
import sys
from IPython.core.formatters import DisplayFormatter
from agents.analysis.inline_figure import InlineFigure

figure = InlineFigure()
figure.add_subplot()
{before}
data, _ = DisplayFormatter().format(figure)
assert data["image/png"].startswith(b"\\x89PNG"), data
assert ("matplotlib.pyplot" in sys.modules) == {imports_pyplot}
"""


@pytest.mark.parametrize("before", ["", "import matplotlib.pyplot"])
def test_notebooks_show_figures_without_pyplot_and_with_it(before):
    code = DISPLAY.format(before=before, imports_pyplot=bool(before))
    subprocess.run([sys.executable, "-c", code], check=True)
