"""The trainer, which `agents.train` (in `agents.scripts.train`) calls.

training_loop    iterate, log, evaluate, checkpoint
learner          an algorithm and its environments; one graph call for an iteration
evaluation       whole episodes with deterministic actions
find_algorithm   the algorithm that the setting names
"""
