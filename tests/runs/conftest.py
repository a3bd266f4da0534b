import os
import subprocess

import pytest


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
