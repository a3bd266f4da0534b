"""Blocks that any algorithm may use: normalisers, distributions, returns."""
