"""TensorFlow in this process.

tensorflow_setup   its start: threads, devices
compilation_cache  compiled programs that processes share
graph_calls        the context in which graphs run
"""
