"""The commands: train, visualize and others."""

import sys

from agents.settings.installation import check_package

# Another distribution's `agents` may have been imported, in a folder that has ours mixed in.
check_package(sys.modules["agents"].__file__)
