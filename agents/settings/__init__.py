"""Settings of an experiment: schema, presets, files."""
