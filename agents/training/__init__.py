"""The trainer: learner, evaluation, checkpoints, metrics and run directories."""
