"""Command lines: options from typed models, and errors that users read."""
