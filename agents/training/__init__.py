"""The trainer, which `agents.train` (in `agents.scripts.train`) calls.

training_loop      iterate, log, evaluate, checkpoint
learner            an algorithm and its environments; one graph call for an iteration
finite_updates     updates with NaN or infinities: an error, or skipped
evaluation         whole episodes with deterministic actions
find_algorithm     the algorithm that the setting names
summary            spaces, network and memory of an experiment, before it starts
console            the progress of a run
training_recorder  drawn episodes of the policy in training
unfit_settings     warnings about settings that do not fit the spaces
episode_cuts       warnings about episodes that checkpoints cut, or nothing ends
"""
