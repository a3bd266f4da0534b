"""Blocks that any algorithm may use: memory, normalisers, distributions, returns."""
