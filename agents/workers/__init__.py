"""Worker processes that host environments, and their parent's side.

external_process   environments in a process of their own, as users see them
host               the environments of a batch, in this process or in a worker
worker             the worker process itself
environment_group  environments that share a process
"""
