"""Start and end of worker processes.

spawner    start and end of worker processes, and the limits of the system
reaper     the parent of a worker, which ends what environments start
heartbeat  signs of life of a process to its parent
"""
