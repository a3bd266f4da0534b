"""Builds the package; its metadata is in pyproject.toml."""

from setuptools import setup

setup()
