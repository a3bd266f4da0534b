import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents.config import load_config
from agents.runs.checkpoint import fingerprint
from agents.runs.metrics import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import main, train
from agents.tools.errors import UsageError

SMALL = {
    "num_envs": 4, "rollout_length": 50, "minibatch_size": 50, "epochs": 2, "layers": (8,), "steps": 2000,
    "checkpoint_interval": 600, "log_interval": 400, "histogram_interval": 800, "eval_interval": 1000,
    "eval_episodes": 2, "env_backend": "inline",
}  # fmt: skip
# A policy with a categorical distribution, other episodes, and rates that don't change.
CARTPOLE = {**SMALL, "env": "CartPole-v1", "steps": 1200, "eval_interval": 400, "learning_rate_schedule": "constant"}


def small(preset="pendulum", **settings):
    return load_config(preset, **{**(CARTPOLE if preset == "cartpole" else SMALL), **settings})


def finish(config, run):
    return list(train(config, run))


def hashes(run):
    """Fingerprints of all variables, one a checkpoint."""
    found = {}
    for path in run.checkpoints.glob("**/step-*.index"):
        reader = tf.train.load_checkpoint(str(path.with_suffix("")))
        variables = {
            name: tf.constant(reader.get_tensor(name))
            for name in reader.get_variable_to_shape_map()
            if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
        }
        found[path.relative_to(run.checkpoints).as_posix()] = fingerprint(variables)
    return found


def rows(run):
    """What was logged, but for what depends on the clock."""
    return [
        {tag: value for tag, value in row.items() if tag != "wall_time" and not tag.startswith("perf/")}
        for row in read_metrics(run.metrics_file)
    ]


def events(folder):
    """Steps by tag, apart from those with which every process begins."""
    accumulator = EventAccumulator(str(folder), {"tensors": 0})
    accumulator.Reload()
    tags = [tag for tag in accumulator.Tags()["tensors"] if tag != "configuration"]
    return {tag: [event.step for event in accumulator.Tensors(tag)] for tag in tags}


def assert_equal_runs(one, other):
    assert hashes(one) == hashes(other)
    assert rows(one) == rows(other)
    assert events(one.train_events) == events(other.train_events)
    assert events(one.eval_events) == events(other.eval_events)


def children():
    """Processes of this one that are alive."""
    alive = []
    for task in Path("/proc/self/task").iterdir():
        alive += (task / "children").read_text().split()
    return alive


def kill_after_evaluation(run, config, which):
    """Trains in a process of its own that is killed right after an evaluation, the `which`-th."""
    code = """
        import os, signal, sys
        from agents.config import load_config
        from agents.runs.run_directory import RunDirectory
        from agents.scripts.train import train

        for number, _ in enumerate(train(load_config(sys.argv[1]), RunDirectory(sys.argv[2])), 1):
            if number == int(sys.argv[3]):
                os.kill(os.getpid(), signal.SIGKILL)
        """
    run.prepare(config)
    arguments = [sys.executable, "-c", textwrap.dedent(code), str(run.config_file), str(run.path), str(which)]
    process = subprocess.run(arguments, capture_output=True, text=True)
    assert process.returncode == -signal.SIGKILL, process.stderr


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    """A run that never stopped, and the scores that it yielded."""
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "20260131T120000-pendulum")
    return run, finish(small(), run)


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    run = RunDirectory(tmp_path_factory.mktemp("runs") / "20260131T120000-cartpole")
    return run, finish(small("cartpole"), run)


def test_yields_the_score_of_every_evaluation(pendulum):
    run, scores = pendulum
    logged = [row["eval/return_mean"] for row in read_metrics(run.metrics_file) if "eval/return_mean" in row]
    assert scores == logged
    assert len(scores) == 2
    assert all(-2000 < score < 0 for score in scores)


def test_a_run_directory_holds_what_the_design_says(pendulum):
    run, scores = pendulum
    assert {path.name for path in run.path.iterdir()} == {
        "config.yaml", "metrics.jsonl", "checkpoints", "train", "eval"
    }  # fmt: skip
    assert run.load_config() == small()
    best = 1000 * (1 + int(np.argmax(scores)))
    assert set(hashes(run)) == {
        *(f"step-{step}.index" for step in (600, 1200, 1800, 2000)),
        f"best/step-{best}.index",
    }


def test_metrics_are_those_of_the_design(pendulum, cartpole):
    losses = {
        "policy",
        "value",
        "entropy",
        "approx_kl",
        "clip_fraction",
        "explained_variance",
        "gradient_norm",
        "epochs",
    }
    always = {
        "step", "wall_time", "perf/steps_per_second", "schedule/learning_rate", *(f"losses/{name}" for name in losses)
    }  # fmt: skip
    ended = {"episode/return", "episode/length"}
    evaluation = {"step", "wall_time", "eval/return_mean", "eval/return_std", "eval/length_mean"}
    logged = read_metrics(pendulum[0].metrics_file)
    # Logged every 400 steps, and at checkpoints. Episodes of 200 steps are cut by checkpoints, but not by evaluations.
    expected = [
        (400, always), (600, always), (800, always), (1000, evaluation), (1200, always), (1600, always),
        (1800, always), (2000, always), (2000, evaluation),
    ]  # fmt: skip
    assert [(row["step"], set(row)) for row in logged] == expected
    assert all(np.isfinite(list(row.values())).all() for row in logged)
    logged = read_metrics(cartpole[0].metrics_file)
    assert all(set(row) in (always | ended, evaluation) for row in logged)


def test_tensorboard_gets_the_scalars_and_histograms_of_the_design(pendulum, cartpole):
    for run, extra in ((pendulum[0], "std"), (cartpole[0], "probability")):
        logged = read_metrics(run.metrics_file)
        scalars = {tag for row in logged for tag in row} - {"step", "wall_time"}
        train_events, eval_events = events(run.train_events), events(run.eval_events)
        assert set(eval_events) == {tag for tag in scalars if tag.startswith("eval/")}
        assert eval_events["eval/return_mean"] == [row["step"] for row in logged if "eval/return_mean" in row]
        assert train_events["losses/value"] == [row["step"] for row in logged if "losses/value" in row]
        histograms = set(train_events) - scalars
        rollout = {
            "action", "log_prob", "mode", extra, "observ", "normalized_observ", "reward", "value", "advantage", "return"
        }  # fmt: skip
        assert {tag for tag in histograms if tag.startswith("rollout/")} == {f"rollout/{name}" for name in rollout}
        for kind in ("weights", "gradients"):
            groups = {tag.split("/")[1] for tag in histograms if tag.startswith(f"{kind}/")}
            assert groups == {"policy", "value"}
        assert train_events["rollout/advantage"] == ([800, 1600, 2000] if run is pendulum[0] else [800, 1200])


def test_a_run_that_was_killed_goes_on_as_if_it_had_never_stopped_wherever_environments_live(pendulum, tmp_path):
    killed = RunDirectory(tmp_path / "20260131T120000-pendulum")
    kill_after_evaluation(killed, small(env_backend="process"), which=1)
    assert set(hashes(killed)) == {"step-600.index", "best/step-1000.index"}
    # This resumes it, too: it is the run that never stopped, though its environments live elsewhere.
    finish(killed.load_config(), killed)
    assert_equal_runs(killed, pendulum[0])


def rewound(run, path, step):
    """A copy of a run without the checkpoints after one of them, as a process leaves it that is killed before those."""
    shutil.copytree(run.path, path)
    copy = RunDirectory(path)
    shutil.rmtree(copy.checkpoints / "best")
    for file in copy.checkpoints.glob("step-*"):
        if int(file.name.partition(".")[0].removeprefix("step-")) > step:
            file.unlink()
    last = str(copy.checkpoints / f"step-{step}")
    tf.compat.v1.train.update_checkpoint_state(str(copy.checkpoints), last, [last])
    return copy


def elsewhere(env_backend):
    """Settings of a run with environments that are neither in processes nor stepped by Python."""
    if env_backend == "tf":
        return small(env_backend="tf")
    pytest.importorskip("envpool")
    return small("cartpole", env_backend="envpool", max_episode_steps=100)


@pytest.mark.parametrize("env_backend", ["tf", "envpool"])
def test_runs_with_other_environments_go_on_from_a_checkpoint_as_if_they_had_never_stopped(tmp_path, env_backend):
    never_stopped = RunDirectory(tmp_path / "never_stopped")
    finish(elsewhere(env_backend), never_stopped)
    stopped = rewound(never_stopped, tmp_path / "stopped", 600)
    assert set(hashes(stopped)) == {"step-600.index"}
    finish(stopped.load_config(), stopped)
    assert_equal_runs(stopped, never_stopped)


@pytest.mark.slow  # The same as above, but that a process is killed indeed, as in processes it always is.
@pytest.mark.parametrize(("env_backend", "evaluations"), [("tf", 1), ("envpool", 2)])
def test_runs_with_other_environments_that_are_killed_go_on_as_if_they_had_never_stopped(
    tmp_path, env_backend, evaluations
):
    never_stopped, killed = RunDirectory(tmp_path / "never_stopped"), RunDirectory(tmp_path / "killed")
    finish(elsewhere(env_backend), never_stopped)
    kill_after_evaluation(killed, elsewhere(env_backend), evaluations)
    finish(killed.load_config(), killed)
    assert_equal_runs(killed, never_stopped)


def test_a_run_that_was_abandoned_goes_on_as_if_it_had_never_stopped(cartpole, tmp_path):
    run = RunDirectory(tmp_path)
    training = train(small("cartpole"), run)
    assert [next(training), next(training)] == cartpole[1][:2]
    training.close()
    damage(run)
    assert finish(small("cartpole"), run) == cartpole[1][1:]  # From the checkpoint after the first evaluation.
    assert_equal_runs(run, cartpole[0])
    before = hashes(run), rows(run)
    assert finish(small("cartpole"), run) == []  # It has ended; nothing changes any more.
    assert (hashes(run), rows(run)) == before


def damage(run):
    """Leaves behind what a process may leave that is killed in the middle of writing."""
    with run.metrics_file.open("a") as file:
        file.write('{"step": 10')
    for folder in (run.train_events, run.eval_events):
        newest = max(folder.iterdir())
        newest.write_bytes(newest.read_bytes() + b"\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7f")
        (folder / "unfinished").write_bytes(b"\x18\x00\x00")
    (run.checkpoints / "step-800.data-00000-of-00001").write_bytes(b"\x00")
    (run.path / "config.yaml.unfinished").write_text("env: Pen")


def test_without_a_run_directory_nothing_is_written_and_workers_end_with_the_generator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    before = children()
    training = train(small(env_backend="process", eval_interval=200))
    next(training)
    assert len(children()) > len(before)
    training.close()
    assert children() == before
    assert list(tmp_path.rglob("*")) == [tmp_path / "temporary"]


def test_workers_end_when_training_fails(tmp_path):
    before = children()
    run = RunDirectory(tmp_path)
    run.prepare(small())
    run.metrics_file.mkdir()
    with pytest.raises(OSError):
        next(train(small(env_backend="process"), run))
    assert children() == before


def test_a_newcomers_environment_with_a_dictionary_of_doubles_can_be_trained_on():
    class Field(gymnasium.Env):
        """Go to the flag: positions are doubles in a dictionary, actions are left, stay and right."""

        observation_space = spaces.Dict(
            flag=spaces.Box(-9, 9, (1,), np.float64), me=spaces.Tuple([spaces.Box(-9, 9, (1,)), spaces.Discrete(4)])
        )
        action_space = spaces.Discrete(3, start=-1)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._flag, self._me = self.np_random.uniform(-4, 4, 2)
            return self._observ(), {}

        def step(self, action):
            self._me = np.clip(self._me + action / 2, -9, 9)
            distance = abs(self._me - self._flag)
            return self._observ(), -distance, bool(distance < 0.3), False, {}

        def _observ(self):
            return {"flag": np.array([self._flag]), "me": (np.array([self._me], np.float32), 3)}

    gymnasium.register("Field-v0", Field, max_episode_steps=20)
    try:
        settings = {"env": "Field-v0", "steps": 4000, "learning_rate": 0.01, "eval_interval": 400, "eval_episodes": 20}
        scores = finish(small("default", **settings, discount=0.9), None)
    finally:
        del gymnasium.registry["Field-v0"]
    assert len(scores) == 10
    assert scores[-1] > -20  # Standing still gives -53 on the average: 20 steps at a distance of 8 / 3.


MY_MODULE = """
    import gymnasium
    from gymnasium import spaces

    class Words(gymnasium.Env):
        observation_space = spaces.Text(5)
        action_space = spaces.Discrete(2)

    class Buttons(gymnasium.Env):
        observation_space = spaces.Box(-1, 1, (2,))
        action_space = spaces.Box(0, 5, (2,), int)

    gymnasium.register("Words-v0", Words)
    gymnasium.register("Buttons-v0", Buttons)
    """


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config=pendulun"], ["pendulun", "did you mean 'pendulum'"]),
        (["--config=pendulum", "--learning-rat=1"], ["--learning-rat", "--learning-rate"]),
        (["--config=pendulum", "--learing_rate=1"], ["--learing_rate", "--learning-rate"]),
        (["--config=pendulum", "--num-envs=many"], ["num_envs", "integer", "many"]),
        (["--config=pendulum", "--discount=1.5"], ["discount", "1.5", "from 0 to 1"]),
        (["--config=pendulum", "--minibatch-size=7"], ["minibatch_size", "7"]),
        (["--env=Pendulun-v1"], ["Pendulun", "Pendulum"]),
        (["--env=no_module:MyEnv-v0"], ["no_module"]),
        (["--network=natur"], ["natur", "did you mean 'nature'"]),
        (["--recurrent=gru", "--sequence-length=48"], ["sequence_length", "64"]),
        (["--env-wrappers=my_module:missing"], ["env_wrappers", "my_module"]),
        (["--env=my_module:Words-v0"], ["Text"]),
        (["--env=my_module:Words-v0", "--env-backend=inline"], ["Text"]),
        (["--env=my_module:Buttons-v0"], ["int64"]),
        (["--env=my_module:Buttons-v0", "--env-backend=inline"], ["int64"]),
        (["--env=Hopper-v5", "--env-backend=tf"], ["Hopper-v5", "CartPole-v1", "Pendulum-v1"]),
        (["--env=my_module:Words-v0", "--env-backend=tf"], ["Words-v0", "agents.envs.register"]),
        (["--env-backend=tf", "--info-keys=speed"], ["info_keys", "tf"]),
        (["--env=Pendulun-v1", "--env-backend=envpool"], ["envpool"]),
        (["--logdir=file/logs"], ["--logdir=file/logs", "not a folder"]),
        (["--timestamp=20260131T120000"], ["--timestamp=20260131T120000"]),
    ],
    ids=lambda value: " ".join(value).replace("/", "-"),
)
def test_bad_input_ends_with_a_few_words(arguments, words, tmp_path):
    (tmp_path / "my_module.py").write_text(textwrap.dedent(MY_MODULE))
    (tmp_path / "file").touch()
    before = set(tmp_path.rglob("*"))
    process = subprocess.run(
        # The interpreter lists what it imports, among what it writes to stderr.
        [sys.executable, "-X", "importtime", "-m", "agents.scripts.train", "--logdir=logs", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    lines = process.stderr.splitlines()
    said = [line for line in lines if not line.startswith("import time:")]
    assert process.returncode == 2, process.stderr[-2000:]
    assert len(said) <= 3
    assert said[0].startswith("error: ")
    for word in words:
        assert word in "\n".join(said)
    assert process.stdout == ""
    assert len(lines) > len(said) + 100
    assert not any("| tensorflow" in line or "|   tensorflow" in line for line in lines)
    assert {path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts} == before


def test_the_command_trains_goes_on_and_says_where(tmp_path, capsys):
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items() if name != "layers"]
    arguments += [f"--logdir={tmp_path}", "--config=cartpole", "--steps=400", "--layers=4", "--seed=5"]
    main(arguments)
    [path] = tmp_path.iterdir()
    captured = capsys.readouterr()
    assert str(path) in captured.err and f"-m tensorboard.main --logdir={tmp_path}" in captured.err
    assert "agents.scripts.visualize" in captured.out and f"--logdir={path}" in captured.out
    timestamp = path.name.removesuffix("-cartpole")
    main([f"--logdir={tmp_path}", f"--timestamp={timestamp}", "--steps=800"])
    assert list(tmp_path.iterdir()) == [path]
    run = RunDirectory.of(path)
    assert run.load_config().steps == 800 and run.load_config().seed == 5
    assert read_metrics(run.metrics_file)[-1]["step"] == 800
    capsys.readouterr()
    main([f"--logdir={tmp_path}", f"--timestamp={timestamp}"])
    assert "ended already" in capsys.readouterr().out


def test_a_checkpoint_of_other_networks_is_refused(cartpole):
    with pytest.raises(UsageError, match="does not fit"):
        finish(small("cartpole", layers=(16,)), cartpole[0])
    assert cartpole[0].load_config() == small("cartpole")


def test_ctrl_c_ends_with_how_to_go_on(tmp_path):
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items() if name != "layers"]
    command = [sys.executable, "-m", "agents.scripts.train", f"--logdir={tmp_path}", "--config=pendulum", *arguments]
    process = subprocess.Popen([*command, "--steps=1000000"], stderr=subprocess.PIPE, text=True)
    try:
        while not process.stderr.readline().startswith("step "):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    [path] = tmp_path.iterdir()
    assert process.returncode == 130
    assert "Traceback" not in said
    *_, interrupted, how_to_go_on = said.splitlines()
    assert interrupted == "Interrupted."
    assert how_to_go_on.endswith(
        f"-m agents.scripts.train --logdir={tmp_path} --timestamp={path.name.partition('-')[0]}"
    )


def test_a_failing_environment_is_reported_with_how_to_go_on(tmp_path, capsys):
    class Fragile(gymnasium.Env):
        observation_space = action_space = spaces.Box(-1, 1, (1,))

        def reset(self, *, seed=None, options=None):
            self._steps = 0
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self._steps += 1
            if self._steps > 60:
                raise ZeroDivisionError("the motor is hot")
            return np.zeros(1, np.float32), 0.0, False, False, {}

    gymnasium.register("Fragile-v0", Fragile, max_episode_steps=100)
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items() if name != "layers"]
    try:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, f"--logdir={tmp_path}", "--config=default", "--env=Fragile-v0", "--env-backend=process"])
    finally:
        del gymnasium.registry["Fragile-v0"]
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "ZeroDivisionError: the motor is hot (environment 0, process" in said
    assert "in step" in said  # The worker's traceback.
    assert f"--timestamp={next(tmp_path.iterdir()).name.partition('-')[0]}" in said


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(2))
def test_the_pendulum_preset_killed_at_any_moment_goes_on_as_if_it_had_never_stopped(tmp_path, attempt):
    settings = ["--config=pendulum", "--steps=40000", "--checkpoint-interval=5000", "--eval-interval=5000"]
    command = [sys.executable, "-m", "agents.scripts.train", f"--logdir={tmp_path}"]
    start = time.monotonic()
    subprocess.run([*command, *settings], check=True, capture_output=True)
    duration = time.monotonic() - start
    [never_stopped] = map(RunDirectory.of, tmp_path.iterdir())
    draw = random.Random(attempt)
    process = subprocess.Popen([*command, *settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run, kills = None, 0
    while True:
        try:
            returncode = process.wait(duration * draw.uniform(0.2, 0.9) if kills < 4 else None)
            assert returncode == 0
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        [run] = [path for path in tmp_path.iterdir() if path != never_stopped.path]
        timestamp = run.name.removesuffix("-pendulum")
        process = subprocess.Popen([*command, f"--timestamp={timestamp}"], stderr=subprocess.DEVNULL)
    assert kills
    assert_equal_runs(RunDirectory.of(run), never_stopped)
    assert json.loads(run.joinpath("metrics.jsonl").read_text().splitlines()[-1])["step"] == 40_000
