"""Benchmarks against other libraries, with their figures; the command is `scripts/benchmark.py`."""
