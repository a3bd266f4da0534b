"""Acting: preprocessed inputs, networks and recurrent state."""
