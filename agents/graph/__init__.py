"""Environments and the simulation loop as operations of the TensorFlow graph.

algorithm             interface of algorithms
simulation            the loop of steps, and of turns where hosts need not be at the same step
in_graph_env          interface of environments in the graph
in_graph_batch_env    Gymnasium vector environments
in_graph_tensor_env   environments written in TensorFlow: cartpole, pendulum, ...
backend               where environments run: process, hybrid, inline, tf, envpool
"""
