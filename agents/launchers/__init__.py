"""Start of several learners: their processes are watched, and started again when one is lost.

launcher  learners on this machine
"""
