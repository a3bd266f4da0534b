"""All suites by name, in the order in which they run."""

from benchmarks import goals, memory, scaling, startup, stepping, training, update

SUITES = {
    "stepping": stepping,
    "update": update,
    "training": training,
    "startup": startup,
    "memory": memory,
    "scaling": scaling,
    "goals": goals,
}
