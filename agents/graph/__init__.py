"""Environments and the simulation loop as operations of the TensorFlow graph.

step                  records: a step, a turn, a rollout
algorithm             interface of algorithms
simulation            the loop of steps, and of turns where hosts need not be at the same step
in_graph_env          interface of environments in the graph
in_graph_batch_env    Gymnasium vector environments
python_call           a Python function as an operation of the graph
in_graph_tensor_env   environments written in TensorFlow
tensor_env            interface of these: cartpole, pendulum, ...
backend               where environments run: process, hybrid, inline, tf, envpool
"""
