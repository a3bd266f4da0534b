"""How a training goes: metrics and TensorBoard's event files."""
