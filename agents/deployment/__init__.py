"""Trained policies outside of training: loaded in Python, and exported to other formats."""
