"""Settings of an experiment: schema, presets, files, and the command line that takes them."""
