"""Environments and the simulation loop as operations of the TensorFlow graph.

step                  records: a step, a turn, a rollout
algorithm             interfaces of actors and algorithms
mock_algorithm        an actor that acts at random
simulation            the loop of steps, and of turns where hosts need not be at the same step
graph_calls           the context of graph calls
in_graph_env          interface of environments in the graph
in_graph_batch_env    Gymnasium vector environments
python_call           a Python function as an operation of the graph
in_graph_tensor_env   environments written in TensorFlow
tensor_env            interface of these: acrobot, cartpole, mountain_car_continuous, pendulum
tensor_registration   their registry, by id
backend               where environments run: process, hybrid, inline, tf, envpool
"""
