"""A process that saves checkpoints as a training would, without TensorFlow: `python -m ... RUN SIZE`.

It prints a line when it has resumed, with the step, and one for every checkpoint that was saved.
"""

import sys

from agents.runs.checkpoint import Checkpoints
from agents.runs.run_directory import RunDirectory
from agents.settings.config_file import load_config
from tests.faults.plain_runs import INTERVAL, make_variables
from tests.fingerprint import fingerprint


def main(path, size):
    run = RunDirectory(path)
    with run.locked(load_config("default")):
        run.prepare(load_config("default"))
        variables = make_variables(0, size)
        checkpoints = Checkpoints(run.checkpoints, variables)
        is_resumed = run.is_started(INTERVAL) and checkpoints.load(required=True)
        step = int(variables["run/steps"].numpy())
        if is_resumed:  # No value is another step's.
            assert fingerprint(variables) == fingerprint(make_variables(step, size))
        print("resumed", step, flush=True)
        while True:
            step += INTERVAL
            for name, variable in make_variables(step, size).items():
                variables[name].assign(variable.numpy())
            assert checkpoints.save(step)
            print("saved", step, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
