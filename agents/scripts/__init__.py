"""The commands: train and visualize."""
