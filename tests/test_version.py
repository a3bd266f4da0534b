import importlib.metadata

import agents
from agents.version import __version__


def test_the_package_and_its_metadata_have_the_same_version():
    assert agents.__version__ == __version__ == importlib.metadata.version("agents")
