"""The trainer: learner, evaluation and the training loop."""
