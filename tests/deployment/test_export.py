import importlib.util
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.deployment.export import METADATA, export_policy
from agents.deployment.space_json import space_from_json
from agents.deployment.trained_policy import load_policy
from agents.errors import UsageError
from agents.scripts import export as command
from agents.spaces import flatten
from tests.deployment import foreign
from tests.deployment.untrained import KINDS, Kind, batches, save_run

# Random masks may allow nothing.
pytestmark = pytest.mark.filterwarnings("ignore:The policy got an action_mask without a valid")

needs_onnx = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("tf2onnx", "onnxruntime"))),
    reason="tf2onnx or onnxruntime is not installed",
)
# Each operation in each format, with those of SPACES below; the others are slow tests.
SHORT = {
    "savedmodel": ["beta", "recurrent lstm", "image", "masked dict"],
    "tflite": ["gaussian", "recurrent", "masked dict"],
    "onnx": ["gaussian", "recurrent lstm", "image"],
}
CASES = [
    pytest.param(
        name,
        format,
        marks=[needs_onnx] * (format == "onnx") + [pytest.mark.slow] * (name not in names),
    )
    for format, names in SHORT.items()
    for name in KINDS
]


@pytest.mark.parametrize(("name", "format"), CASES)
def test_exported_policies_act_as_the_loaded_one(name, format, tmp_path, saved, loaded):
    assert_acts_as(loaded(name), saved(name), KINDS[name], format, tmp_path / "out")


BOX = spaces.Box(-1, 1, (2,))
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
DIGITS = spaces.MultiDiscrete([3, 2], np.int8, start=[-5, 1])
OBSERVED_TYPES = {
    **{dtype: spaces.Box(0, 100, (2,), dtype) for dtype in INTEGERS},
    **{dtype: spaces.Box(-9, 9, (2,), dtype) for dtype in ("float16", "float32", "float64")},
    "digits": DIGITS,
    "bits": spaces.MultiBinary((2, 1)),
}
ACTED_TYPES = {
    **{dtype: spaces.Box(-2, 2, (1, 2), dtype) for dtype in ("float16", "float32", "float64")},
    "scaled": spaces.Box(-1000, 3000, (), np.float64),
    "unbounded": spaces.Box(-np.inf, 1e300, (1,), np.float64),
    "digits": DIGITS,
}
KEYS = ("X", "x", "a b", "a/b", "a.b", "a_b", "A_B", "ä", "1", "", "observ", "action", "state_0")
PAIR = spaces.Tuple([BOX, spaces.Dict(X=BOX, x=BOX)])
SPACES = {
    "types": Kind((spaces.Dict(OBSERVED_TYPES), spaces.Dict(ACTED_TYPES)), {"layers": [8]}),
    "keys": Kind(
        (
            spaces.Dict({**dict.fromkeys(KEYS, BOX), "pair": PAIR}),
            spaces.Dict({**dict.fromkeys(KEYS, BOX), "pair": PAIR}),
        ),
        {"layers": [8]},
    ),
    "gelu": Kind((BOX, BOX), {"layers": [8], "activation": "gelu"}),
}


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("format", ["savedmodel", "tflite", pytest.param("onnx", marks=needs_onnx)])
def test_exported_policies_have_tensors_of_any_name_and_type(name, format, tmp_path):
    run = save_run(SPACES[name], tmp_path)
    metadata = assert_acts_as(load_policy(run), run, SPACES[name], format, tmp_path / "out")
    assert space_from_json(metadata["action_space"]) == SPACES[name].spaces[1]
    if format == "tflite" and name == "types":
        dtypes = {tensor["name"]: tensor["dtype"] for tensor in metadata["outputs"]}
        assert {dtypes[f"action_float{bits}"] for bits in (16, 32, 64)} == {"float32"}


UNSIGNED = (spaces.Box(0, 100, (2,), np.uint64), spaces.Discrete(2))
BFLOAT16 = KINDS["categorical"]._replace(settings={"layers": [8], "precision": "bfloat16"})
SHIFTED = KINDS["categorical"]._replace(settings={"network": "tests.policies.own_networks:shifted"})


@pytest.mark.parametrize(
    ("kind", "format", "message"),
    [
        (Kind(UNSIGNED, {"layers": [4]}), "tflite", r".*tf.Cast.*ui64.*\nuse --format=save"),
        (BFLOAT16, "tflite", "can't convert this policy"),
        pytest.param(BFLOAT16, "onnx", "can't convert this policy", marks=needs_onnx),
        pytest.param(
            SHIFTED, "onnx", ".*a layer holds a tensor that is no weight", marks=needs_onnx
        ),
    ],
)
def test_a_format_without_the_operations_of_a_policy_says_so(kind, format, message, tmp_path):
    run = save_run(kind, tmp_path)
    with pytest.raises(UsageError, match=f"^--format={format}: {message}") as caught:
        export_policy(run, tmp_path / "out", format)
    assert str(caught.value).count("\n") == 1
    assert not (tmp_path / "out").exists()


def assert_acts_as(policy, run, kind, format, folder):
    metadata = export_policy(run, folder, format)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        act = foreign.load(folder, metadata)
    for num in (1, 5, 3):
        policy.reset()
        state = {
            tensor["name"]: np.zeros([num, *tensor["shape"][1:]], tensor["dtype"])
            for tensor in metadata["inputs"]
            if tensor["name"].startswith("state_")
        }
        for seed in range(3):
            observ = batches(kind.spaces[0], num, seed)
            names = [tensor["name"] for tensor in metadata["inputs"]]
            leaves = flatten(kind.spaces[0], observ)
            results = act({**dict(zip(names, leaves, strict=False)), **state})
            state = {key: results[f"next_{key}"] for key in state}
            actions = flatten(kind.spaces[1], policy(observ))
            for output, action in zip(metadata["outputs"], actions, strict=False):
                result = results[output["name"]]
                assert result.dtype == output["dtype"]
                if format != "tflite" or action.dtype.kind != "f":
                    assert result.dtype == action.dtype
                # Numbers of float16 between 1 and 2 are 1e-3 apart.
                atol = 2e-3 if action.dtype == np.float16 else 1e-5
                np.testing.assert_allclose(result, action, rtol=1e-4, atol=atol)
    return metadata


def test_the_command_writes_the_policy_and_metadata_that_describe_it(tmp_path, capsys):
    kind, out = KINDS["recurrent"], tmp_path / "new" / "out"
    run = save_run(kind, tmp_path)
    scores = {"eval/return_mean": 1.5, "eval/return_std": 0.5, "eval/length_mean": 10.0}
    run.metrics_file.write_text(json.dumps({"step": 1, "time": 0, **scores}) + "\n")
    command.main([f"--logdir={run.path}", f"--outdir={out}"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Wrote the policy of step 1 to {out}"
    assert lines[1].startswith("It takes observ, state_0 and returns action, next_state_0;")
    metadata = json.loads((out / METADATA).read_text())
    assert [tensor["name"] for tensor in metadata["inputs"]] == ["observ", "state_0"]
    assert [tensor["name"] for tensor in metadata["outputs"]] == ["action", "next_state_0"]
    assert metadata["inputs"][1] == {"name": "state_0", "shape": [None, 8], "dtype": "float32"}
    assert metadata["checkpoint_step"] == 1 and metadata["run"] == run.path.name
    observation_space, action_space = kind.spaces
    assert space_from_json(metadata["observation_space"]) == observation_space
    assert space_from_json(metadata["action_space"]) == action_space
    assert metadata["evaluation"]["return_mean"] == 1.5
    assert len(metadata["evaluation"]["seeds"]) == run.load_config().eval_episodes


@pytest.mark.parametrize("place", ["link", "current folder"])
def test_a_policy_is_exported_into_an_empty_folder_of_any_kind(place, tmp_path, monkeypatch):
    run = save_run(KINDS["categorical"], tmp_path)
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    monkeypatch.chdir(folder)
    export_policy(run, link if place == "link" else ".")
    assert {path.name for path in folder.iterdir()} >= {METADATA, "saved_model.pb", "variables"}
    assert link.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {run.path.name, "folder", "link"}


def test_mistakes_are_named_and_leave_nothing(tmp_path, monkeypatch):
    run = save_run(KINDS["categorical"], tmp_path)
    out = tmp_path / "out"
    with pytest.raises(UsageError, match="--format=tf: expected savedmodel, tflite, onnx"):
        export_policy(run, out, "tf")
    with pytest.raises(UsageError, match="--checkpoint=7"):
        export_policy(run, out, checkpoint="7")
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(UsageError, match="needs the package tf2onnx.*\n.*install -e .*onnx"):
            export_policy(run, out, "onnx")
    with monkeypatch.context() as patch:
        patch.setattr(tf.saved_model, "save", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export_policy(run, out)
    assert [path.name for path in tmp_path.iterdir()] == [run.path.name]
    out.mkdir()
    export_policy(run, out)
    before = sorted(out.rglob("*"))
    with pytest.raises(UsageError, match="is not empty"):
        export_policy(run, out)
    with pytest.raises(UsageError, match="is not a folder"):
        export_policy(run, out / METADATA)
    assert sorted(out.rglob("*")) == before


TRAININGS = {
    "gaussian": ["--config=pendulum", "--steps=4096"],
    "categorical": ["--config=cartpole", "--steps=4096"],
    "recurrent": ["--config=cartpole", "--recurrent=gru", "--steps=4096"],
    "image": [
        "--config=default",
        "--env=tests.deployment.pictures:Pictures-v0",
        "--network=nature",
        "--steps=2048",
        "--rollout-length=64",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAININGS)
def test_other_programs_reach_the_scores_of_the_run(name, tmp_path):
    """Trains, exports, and evaluates in processes that can't import this library."""
    environ = {**os.environ, "PYTHONPATH": str(Path(command.__file__).parents[2])}
    train = [sys.executable, "-m", "agents.scripts.train", "--logdir=logs", *TRAININGS[name]]
    subprocess.run(train, cwd=tmp_path, env=environ, check=True, capture_output=True)
    [run] = (tmp_path / "logs").iterdir()
    for format in ("savedmodel", "tflite", "onnx"):
        if format == "onnx" and not importlib.util.find_spec("tf2onnx"):
            continue
        metadata = export_policy(run, tmp_path / format, format)
        process = subprocess.run(
            [sys.executable, foreign.__file__, tmp_path / format],
            cwd=tmp_path,
            env=environ,
            check=True,
            capture_output=True,
            text=True,
        )
        returns = json.loads(process.stdout.splitlines()[-1])
        expected = metadata["evaluation"]
        assert len(returns) == len(expected["seeds"])
        np.testing.assert_allclose(np.mean(returns), expected["return_mean"], rtol=1e-5)
