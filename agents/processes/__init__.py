"""Start and end of worker processes, whatever they host.

spawner          start and end of worker processes
spare_worker     a worker that is started before it is needed
heartbeat        signs of life of a process to its parent
process_group    the processes that a worker starts itself
resource_limits  errors where the system refuses another process
"""
