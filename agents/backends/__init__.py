"""Where environments run: the interface `backend`, and a module for each value of `env_backend`."""
