"""Action distributions, and families of them: one for each kind of action space."""
