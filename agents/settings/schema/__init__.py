"""The settings of an experiment by section, their types and their values as plain data."""
