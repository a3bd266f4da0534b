import importlib.metadata
from pathlib import Path

from ruamel.yaml import YAML

import agents
from agents.settings.installation import DISTRIBUTION
from agents.version import __version__


def test_the_package_and_its_metadata_have_the_same_version():
    assert agents.__version__ == __version__ == importlib.metadata.version(DISTRIBUTION)


def test_the_citation_has_the_version_and_the_paper():
    citation = YAML(typ="safe").load(Path(__file__).parents[1] / "CITATION.cff")
    assert citation["version"] == __version__ and citation["license"] == "Apache-2.0"
    # What the format requires, see citation-file-format.github.io.
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    [paper] = citation["references"]
    assert (paper["year"], paper["url"]) == (2017, "https://arxiv.org/abs/1709.02878")
