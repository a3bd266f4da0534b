"""Memory that processes share, and how they take turns in it.

channel           the connection of a parent and its worker
several_channels  waiting for some of several workers
shared_arrays     arrays of a batch in one block of memory
shared_block      memory that several processes map
"""
