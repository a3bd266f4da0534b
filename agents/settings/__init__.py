"""What an experiment is: its settings, presets, files and command line."""
