"""Environments and the simulation loop as operations of the TensorFlow graph."""
