"""Memory that processes share, and requests and replies in it.

channel        the connection of a parent and its worker
shared_arrays  arrays of a batch in one block of memory
shared_block   memory that several processes map
"""
