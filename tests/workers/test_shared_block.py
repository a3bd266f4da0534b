import os

import pytest

from agents.workers.shared_block import create_anonymous_file, map_file


@pytest.mark.parametrize("memfd", [True, False])
def test_mappings_of_a_file_without_a_name_share_their_bytes(memfd, monkeypatch):
    if not memfd:
        monkeypatch.delattr(os, "memfd_create")  # Linux has it.
    descriptor = create_anonymous_file(1000)
    assert os.fstat(descriptor).st_nlink == 0
    block, other = map_file(descriptor, 1000), map_file(descriptor, 1000)
    os.close(descriptor)
    assert block.shape == other.shape == (1000,)
    assert not block.any()
    block[:] = 7
    assert other.sum() == 7000
