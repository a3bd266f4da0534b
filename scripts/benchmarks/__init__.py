"""Benchmarks against other libraries; `scripts/benchmark.py` is their command."""
