"""Start and end of worker processes, whatever they host.

spawner          start and end of worker processes
process_group    the processes that a worker starts itself
resource_limits  errors where the system refuses another process
"""
