"""Trained results beside published ones, with their plots; the command is `scripts/results.py`."""
