"""Start and end of worker processes, whatever they host.

spawner          start and end of worker processes
spare_worker     a worker that is started before it is needed
heartbeat        signs of life of a process to its parent
reaper           the parent of a worker, which ends what environments start
resource_limits  errors where the system refuses another process
"""
