"""Worker processes that host environments, and their parent's side.

external_process    environments in a process of their own, as users see them
environment_handle  one environment of a worker process
attachment          the part of a batch's arrays that a host works on
host                what a batch asks of what runs its environments; hosts in this process
worker_host         hosts in a worker process
worker              the worker process itself
environment_group   environments that share a process
description         what a batch needs to know of an environment
"""
