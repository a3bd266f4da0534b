"""Finds the variables of an object, for tests that none is missing in checkpoints."""

import collections
import functools
import inspect
import types

import keras
import tensorflow as tf

WALKED_PACKAGES = ("agents", "keras", "tests")


def reachable_variables(root, name="root"):
    """Variables by path: through attributes, containers, closures, graphs and Keras objects."""
    found, seen, queue = {}, {}, collections.deque([(name, root)])
    while queue:  # Breadth first, which finds the shortest paths.
        path, value = queue.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value  # Keeps it alive, and with it its id.
        if isinstance(value, keras.Variable):
            value = value.value
        if isinstance(value, tf.Variable):
            found.setdefault(id(value), (path, value))
        else:
            queue.extend(_children(path, value))
    return dict(found.values())


def _children(path, value):
    """Yields path and value of what an object holds."""
    if isinstance(value, dict):
        yield from ((f"{path}[{key!r}]", child) for key, child in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"{path}[{index}]", child) for index, child in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from (
            (f"{path}.partial", child) for child in (value.func, value.args, value.keywords)
        )
    elif isinstance(value, types.MethodType):
        yield f"{path}.__self__", value.__self__
        yield f"{path}.__func__", value.__func__
    elif isinstance(value, types.FunctionType):
        variables = inspect.getclosurevars(value)
        for name, child in {**variables.nonlocals, **variables.globals}.items():
            yield f"{path}:{name}", child
    elif hasattr(value, "python_function"):  # A `tf.function`.
        yield path, value.python_function
    if _is_walked(value):
        yield from ((f"{path}.{name}", child) for name, child in vars(value).items())


def _is_walked(value):
    package = type(value).__module__.partition(".")[0]
    return hasattr(value, "__dict__") and (
        package in WALKED_PACKAGES or isinstance(value, (tf.Module, tf.random.Generator))
    )
