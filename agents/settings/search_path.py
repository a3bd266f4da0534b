"""Takes the current folder off the places of modules where `python -m agents...` puts it first.

A `numpy.py` there must not replace the installed one. Modules of users are found there as
`agents.settings.current_folder` describes. This is the first import of `agents`, and imports nothing that
is not loaded yet.
"""

import os
import sys

# Python names the module in `argv` only once it is found, in `agents`. Before, its name stands ahead
# of the arguments, perhaps after options: `-m agents`, `-um agents`, `-magents`.
if sys.argv[:1] == ["-m"] and not getattr(sys.flags, "safe_path", sys.flags.isolated):
    _module = sys.orig_argv[-len(sys.argv)]
    if _module.startswith("-"):
        _module = _module.partition("m")[2]
    if f"{_module}.".startswith("agents."):
        _folder = sys.path.pop(0)
        if _folder == os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))):
            sys.path.append(_folder)  # A checkout that is not installed.
