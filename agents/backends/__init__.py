"""Where environments run: in processes, here, in TensorFlow, in EnvPool's threads."""
