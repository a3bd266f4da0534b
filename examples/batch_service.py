"""Serves an exported policy: python batch_service.py policy-onnx 8000."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

folder, port = Path(sys.argv[1]), int(sys.argv[2])
description = json.loads((folder / "policy.json").read_text())
session = onnxruntime.InferenceSession(str(folder / "policy.onnx"))


def as_array(values: list[Any], dtype: str) -> np.ndarray:
    """Returns the numbers of a request as an array, or raises ValueError."""
    numbers = np.asarray(values)
    array = numbers.astype(dtype)
    if not np.isfinite(array).all() or not np.allclose(array, numbers):
        raise ValueError(f"expected finite numbers of {dtype}")
    return array


def check_mask(mask: np.ndarray) -> None:
    """Raises ValueError unless masks [N, actions] allow an action, in each part of MultiDiscrete."""
    space = description["action_space"]
    if space["type"] not in ("Discrete", "MultiDiscrete"):
        return  # A part of the observation that only has this name.
    sizes = np.ravel(space["nvec"] if "nvec" in space else space["n"])
    parts = np.split(mask == 1, np.cumsum(sizes)[:-1], axis=-1)
    if not (np.isin(mask, (0, 1)).all() and all(part.any(-1).all() for part in parts)):
        raise ValueError("expected masks of 0 and 1 with a valid action")


class Handler(BaseHTTPRequestHandler):
    """Answers observations [N, ...] by name with actions [N, ...] by name."""

    def do_POST(self) -> None:
        """Answers one request: 200 with actions, or 400 with an error."""
        try:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            batch = {
                entry["name"]: as_array(request[entry["name"]], entry["dtype"])  # [N, ...]
                for entry in description["inputs"]
            }
            if len({len(values) for values in batch.values()}) > 1:
                raise ValueError("expected as many observations of each input")
            if "observ_action_mask" in batch:
                check_mask(batch["observ_action_mask"])
            names = [entry["name"] for entry in description["outputs"]]
            actions = session.run(names, batch)
            self.reply(200, {name: a.tolist() for name, a in zip(names, actions, strict=True)})
        except KeyError as missing:
            self.reply(400, {"error": f"the request has no {missing}"})
        except Exception as error:  # The service survives a bad request.
            self.reply(400, {"error": str(error)})

    def reply(self, status: int, content: dict[str, Any]) -> None:
        """Sends JSON."""
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
    print(f"Serving {description['run']} on port {server.server_port}", flush=True)
    server.serve_forever()
