"""Trained policies outside of training: loaded in Python, exported to other formats, and filmed."""
