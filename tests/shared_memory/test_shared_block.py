import gc
import os

import pytest

from agents.shared_memory.shared_block import SharedBlock, create_anonymous_file, map_file


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("memfd", [True, False])
def test_mappings_share_their_bytes(memfd, monkeypatch):
    if not memfd:
        monkeypatch.delattr(os, "memfd_create")  # Linux has it.
    block = SharedBlock(1000)
    other = map_file(block.descriptor, 1000)
    assert block.bytes.shape == other.shape == (1000,)
    assert not block.bytes.any()
    block.bytes[:] = 7
    assert other.sum() == 7000
    block.close()


@pytest.mark.parametrize("memfd", [True, False])
def test_the_file_has_no_name(memfd, monkeypatch):
    if not memfd:
        monkeypatch.delattr(os, "memfd_create")
    block = SharedBlock(10)
    assert os.fstat(block.descriptor).st_nlink == 0
    block.close()


def test_the_descriptor_may_be_closed_after_mapping():
    descriptor = create_anonymous_file(10)
    mapped = map_file(descriptor, 10)
    os.close(descriptor)
    mapped[:] = 1
    assert mapped.sum() == 10


def test_close_keeps_the_bytes_and_can_be_called_again():
    block = SharedBlock(10)
    descriptor = block.descriptor
    block.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(ValueError, match="closed"):
        _ = block.descriptor
    reused = os.open(os.devnull, os.O_RDONLY)  # Gets the number that has become free.
    block.close()
    os.fstat(reused)
    os.close(reused)
    block.bytes[:] = 1


@pytest.mark.parametrize("closed", [True, False])
def test_no_descriptor_leaks(closed):
    before = descriptors()
    blocks = [SharedBlock(100) for _ in range(5)]
    assert descriptors() > before
    if closed:
        for block in blocks:
            block.close()
    del blocks
    if closed:
        del block
    assert descriptors() == before


def test_views_outlive_the_block():
    block = SharedBlock(10)
    view = block.bytes[2:4]
    del block
    gc.collect()
    view[:] = 3
    assert view.sum() == 6
