import subprocess
import sys

# What settings are made of may not cost the import of NumPy and Gymnasium.
CODE = """
import sys
import agents.types
print(sorted({"numpy", "gymnasium", "tensorflow"} & set(sys.modules)))
"""


def test_types_are_imported_without_what_they_name():
    answer = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert answer.stdout == "[]\n", answer.stderr
