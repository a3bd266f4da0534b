"""Worker processes that host environments, and their parent's side.

external_process   environments in a process of their own, as users see them
host               the environments of a batch, in this process or in a worker
worker             the worker process itself
environment_group  environments that share a process
channel            the connection of a parent and its worker
shared_arrays      arrays of a batch in one block of memory
shared_block       memory that several processes map
spawner            start and end of worker processes, and the limits of the system
reaper             the parent of a worker, which ends processes that environments start
heartbeat          signs of life of a process to its parent
"""
