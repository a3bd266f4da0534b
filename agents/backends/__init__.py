"""Backends of environments: processes, this process, TensorFlow, EnvPool's threads."""
