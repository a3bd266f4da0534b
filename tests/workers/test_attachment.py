from agents.shared_memory.shared_arrays import BatchArrays, Layout
from agents.shared_memory.shared_block import SharedBlock
from agents.workers.attachment import Attachment
from agents.workers.host import LocalHost
from tests.toys import CountingEnv


def test_hosts_write_the_rows_that_they_are_attached_to_and_no_others():
    envs = [CountingEnv() for _ in range(3)]
    layout = Layout(3, envs[0].observation_space, envs[0].action_space)
    block = SharedBlock(layout.size)
    arrays = BatchArrays(layout, block.bytes)
    arrays.mask[:], arrays.seed[:] = True, -1
    for leaf in arrays.observ:
        leaf[:] = 77
    hosts = [LocalHost(lambda env=env: env) for env in envs]
    for row in (2, 0):
        hosts[row].attach(Attachment(arrays, block, start=row, autoreset=True))
        hosts[row].send_reset()
        hosts[row].receive()
    for leaf in arrays.observ:
        assert (leaf[1] == 77).all()
        assert not (leaf[[0, 2]] == 77).all(axis=tuple(range(1, leaf.ndim))).any()
    block.close()
