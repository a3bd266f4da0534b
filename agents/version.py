"""The version of this library, also for the package's metadata."""

__version__ = "0.1.0"
