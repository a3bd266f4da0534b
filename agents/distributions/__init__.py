"""Action distributions, one module per kind of action."""
