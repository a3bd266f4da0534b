"""Sweeps: many short trainings that search for good settings."""
