"""Takes the pictures of TensorBoard's pages for the docs, in a headless browser.

`python scripts/screenshots.py --logdir=LOGDIR --outdir=docs/images` needs chromium, chromedriver, and selenium of the
extra `test`.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PAGES = ("timeseries", "distributions", "histograms", "images", "hparams", "text", "graphs")
SECONDS = 90.0

# The text of a page, within components, too.
_TEXT = """
const texts = [];
const visit = node => {
  if (node.nodeType === Node.TEXT_NODE) texts.push(node.textContent.trim());
  if (node.shadowRoot) visit(node.shadowRoot);
  if (!['STYLE', 'SCRIPT'].includes(node.nodeName)) node.childNodes.forEach(visit);
};
visit(document.body);
return texts.filter(text => text).join('\\n');
"""
# Elements that draw data, within components, too.
_COUNT = """
let count = 0;
const visit = node => {
  if (node.matches && node.matches(arguments[0]) && node.getBoundingClientRect().width) count++;
  if (node.shadowRoot) visit(node.shadowRoot);
  node.childNodes.forEach(visit);
};
visit(document.body);
return count;
"""


class Browser:
    """A headless Chromium that shows the pages of a TensorBoard."""

    def __init__(self, address: str):
        """Starts the browser.

        Args:
          address: Where TensorBoard answers, such as http://localhost:6006.
        """
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        for argument in ("headless=new", "no-sandbox", "window-size=1500,1000", "hide-scrollbars"):
            options.add_argument(f"--{argument}")
        self._driver = webdriver.Chrome(
            options, webdriver.ChromeService(shutil.which("chromedriver"))
        )
        self._address = address

    def show(self, page: str) -> None:
        """Opens a page of `PAGES`."""
        self._driver.get("about:blank")  # Another fragment alone loads nothing.
        self._driver.get(f"{self._address}/#{page}")

    def text(self) -> str:
        """Returns the text of the page, one line per node."""
        return str(self._driver.execute_script(_TEXT))

    def count(self, selector: str) -> int:
        """Returns how many visible elements of the page a CSS selector matches."""
        return int(self._driver.execute_script(_COUNT, selector))

    def save(self, path: Path) -> None:
        """Saves a picture of the page as PNG."""
        self._driver.save_screenshot(str(path))

    def close(self) -> None:
        """Ends the browser."""
        self._driver.quit()


@contextlib.contextmanager
def tensorboard(logdir: Path) -> Iterator[str]:
    """Starts TensorBoard; yields its address.

    Raises:
      RuntimeError: It did not start.
    """
    command = [sys.executable, "-m", "tensorboard.main", f"--logdir={logdir}", "--port=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout
        for line in process.stdout:
            if match := re.search(r"http://localhost:\d+", line):
                yield match[0]
                return
        raise RuntimeError("TensorBoard did not start")
    finally:
        process.terminate()
        process.communicate()


def main() -> None:
    """Saves a picture of each page as `tensorboard-<page>.png`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logdir", required=True, type=Path)
    parser.add_argument("--outdir", required=True, type=Path)
    options = parser.parse_args()
    options.outdir.mkdir(parents=True, exist_ok=True)
    with tensorboard(options.logdir) as address, contextlib.closing(Browser(address)) as browser:
        for page in PAGES:
            browser.show(page)
            time.sleep(8)  # Charts are drawn after their data has arrived.
            browser.save(options.outdir / f"tensorboard-{page}.png")


if __name__ == "__main__":
    main()
