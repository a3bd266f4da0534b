"""Environments that are drawn: frames, videos, films, cameras."""
