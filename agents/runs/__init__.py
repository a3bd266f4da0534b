"""What surrounds learning: environments, run directories, checkpoints, evaluation, metrics, seeds."""

from agents.lazy import lazy_names

__all__ = [
    "Checkpoints",
    "Console",
    "Evaluation",
    "Learner",
    "Metrics",
    "RunDirectory",
    "Seeds",
    "load_policy",
    "make_environments",
    "start_tensorflow",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Checkpoints": "checkpoint",
        "Console": "console",
        "Evaluation": "evaluate",
        "Learner": "learner",
        "Metrics": "metrics",
        "RunDirectory": "run_directory",
        "Seeds": "seeds",
        "load_policy": "trained_policy",
        "make_environments": "environments",
        "start_tensorflow": "tensorflow_setup",
    },
)
