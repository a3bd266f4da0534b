"""Loads an exported policy without this library, and evaluates it in Gymnasium's environments.

    python foreign.py FOLDER

It prints the returns of the episodes of the run's own evaluation, as JSON.
"""

import json
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":
    sys.modules["agents"] = None  # Importing it raises ImportError.

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402


def load(folder, metadata):
    """Returns a function from arrays by name to arrays by name."""
    if metadata["format"] == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(str(folder / "policy.onnx"))
        names = [result.name for result in session.get_outputs()]
        return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))
    import tensorflow as tf

    if metadata["format"] == "tflite":
        warnings.simplefilter("ignore")
        interpreter = tf.lite.Interpreter(str(folder / "policy.tflite"))
        run = interpreter.get_signature_runner("serving_default")
        return lambda inputs: run(**inputs)
    # The module must live as long as its function.
    module = tf.saved_model.load(str(folder))
    signature = module.signatures["serving_default"]

    def call(inputs, module=module):
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        return {name: tensor.numpy() for name, tensor in signature(**tensors).items()}

    return call


def evaluate(act, metadata):
    """Returns the return of each episode; one episode runs in each environment."""
    seeds = metadata["evaluation"]["seeds"]
    envs = [gymnasium.make(metadata["env"]) for _ in seeds]
    observs = [env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)]
    observ_name, *states = [tensor["name"] for tensor in metadata["inputs"]]
    sizes = {tensor["name"]: tensor["shape"][1:] for tensor in metadata["inputs"]}
    state = {name: np.zeros([len(envs), *sizes[name]], np.float32) for name in states}
    returns, running = np.zeros(len(envs)), np.ones(len(envs), bool)
    while running.any():
        results = act({observ_name: np.stack(observs), **state})
        state = {name: results[f"next_{name}"] for name in states}
        for index in np.flatnonzero(running):
            action = results["action"][index]
            observs[index], reward, terminated, truncated, _ = envs[index].step(action)
            returns[index] += reward
            running[index] = not (terminated or truncated)
    return returns.tolist()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    description = json.loads((path / "policy.json").read_text())
    print(json.dumps(evaluate(load(path, description), description)))
