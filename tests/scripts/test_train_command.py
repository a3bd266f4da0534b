"""The command: its messages, how it ends, and how it resumes."""

import json
import random
import subprocess
import sys
import time

import gymnasium
import pytest

from agents.errors import UsageError
from agents.runs.metrics_file import read_metrics
from agents.runs.preset_table import describe_default
from agents.runs.run_directory import RunDirectory
from agents.scripts.train import main, train
from agents.settings.config_file import load_config
from tests.faulty_toys import FaultyEnv
from tests.scripts.runs import CARTPOLE, SMALL, assert_equal_runs
from tests.toys import FORCE, UNBOUNDED, CountingEnv

ARGUMENTS = [f"--{name}={value}" for name, value in SMALL.items() if name != "layers"]


def test_the_command_trains_and_resumes_and_prints_where(tmp_path, capsys):
    settings = ["--config=cartpole", "--steps=400", "--layers=4", "--seed=5"]
    main([*ARGUMENTS, f"--logdir={tmp_path}", *settings])
    [path] = tmp_path.iterdir()
    captured = capsys.readouterr()
    assert str(path) in captured.err and f"-m tensorboard.main --logdir={tmp_path}" in captured.err
    assert "Without --config" not in captured.err
    [evaluation] = [
        row for row in read_metrics(path / "metrics.jsonl") if "eval/length_mean" in row
    ]
    score = f"The last evaluation gave {evaluation['eval/return_mean']:.1f}, training episodes "
    assert captured.out.startswith(score)
    assert captured.out.endswith(f"-m agents.scripts.visualize --logdir={path}\n")
    timestamp = path.name.removesuffix("-cartpole")
    main([f"--logdir={tmp_path}", f"--timestamp={timestamp}", "--steps=800"])
    assert list(tmp_path.iterdir()) == [path]
    run = RunDirectory.of(path)
    assert run.load_config().steps == 800 and run.load_config().seed == 5
    assert read_metrics(run.metrics_file)[-1]["step"] == 800
    capsys.readouterr()
    main([f"--logdir={tmp_path}", "--timestamp=latest"])
    assert capsys.readouterr().out.startswith(
        "Nothing left to do; a larger --steps trains longer. The last evaluation gave "
    )
    with pytest.raises(UsageError, match="learning_rate: the run has "):
        main([f"--logdir={tmp_path}", "--timestamp=latest", "--learning-rate=1", "--dry-run"])


def test_a_resumed_run_says_that_it_keeps_its_settings_where_the_file_has_others(tmp_path):
    file = tmp_path / "mine.yaml"
    command = [f"--config={file}", f"--logdir={tmp_path / 'logdir'}"]

    def write(**settings):
        file.write_text(json.dumps({**CARTPOLE, **settings}))

    write(steps=400)
    main([*command, "--seed=5"])
    with pytest.warns(UserWarning, match="seed is 5 in it, and 0 in .*mine.yaml. To change"):
        main([*command, "--timestamp=latest"])
    write(steps=800, seed=5)
    with pytest.warns(UserWarning, match="steps is 400 in it, and 800 in "):
        main([*command, "--timestamp=latest"])
    main([*command, "--timestamp=latest", "--steps=800"])  # No warning.
    file.unlink()
    main([*command, "--timestamp=latest"])  # Its name tells the run all the same.


def test_a_name_is_for_a_new_run_and_of_plain_characters(tmp_path):
    with pytest.raises(ValueError, match="The name is for a new run; give its logdir"):
        train(load_config("pendulum"), name="mine")
    with pytest.raises(UsageError, match="name: expected letters"):
        train(load_config("pendulum"), logdir=tmp_path, name="lr/1e-3")
    with pytest.raises(UsageError, match=r"name: expected letters, digits .*got 'lr/1e-3'"):
        main([f"--logdir={tmp_path}", "--config=cartpole", "--name=lr/1e-3"])


def test_arguments_of_a_file_that_others_replace_are_named(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("extends: cartpole\nenv_kwargs: {sutton_barto_reward: true}\n")
    with pytest.warns(UserWarning, match="replaces all of .*mine.yaml: .* defaults for sutton"):
        main([f"--config={file}", "--env-kwargs={}", "--dry-run"])


def test_a_setting_without_effect_is_named(tmp_path):
    command = ["--config=cartpole", "--objective=kl", "--clip-ratio=0.1", "--dry-run"]
    with pytest.warns(UserWarning, match="clip_ratio has no effect: it needs objective clip"):
        main(command)
    file = tmp_path / "mine.yaml"
    file.write_text("extends: cartpole\nclip_ratio: 0.1\nobjective: kl\n")
    with pytest.warns(UserWarning, match="clip_ratio has no effect: it needs objective clip"):
        main([f"--config={file}", "--dry-run"])
    with pytest.warns(UserWarning, match="clip_ratio has no effect"):
        config = load_config(file)
    RunDirectory(tmp_path / "run").prepare(config)
    main([f"--config={tmp_path}/run/config.yaml", "--dry-run"])


def test_a_run_with_settings_of_another_one_is_named_after_its_environment(tmp_path):
    sizes = {"num_envs": 2, "rollout_length": 5, "minibatch_size": 10, "eval_episodes": 1}
    config = load_config("cartpole", steps=10, env_backend="inline", layers=[4], **sizes)
    RunDirectory(tmp_path / "first").prepare(config)
    main([f"--logdir={tmp_path}/logs", f"--config={tmp_path}/first/config.yaml", "--name=fine"])
    [run] = (tmp_path / "logs").glob("2*")
    assert run.name.partition("-")[2] == "CartPole-v1-fine"


def test_a_cluster_is_for_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["localhost:1", "localhost:2"]}}')
    with pytest.warns(UserWarning, match="agents.train ignores TF_CONFIG"):
        train(load_config("pendulum"))


def test_without_a_preset_it_says_whose_settings_it_takes(capsys):
    main(["--env=CartPole-v1", "--num-envs=1", "--layers=4", "--dry-run"])
    note = "Without --config, training uses the preset 'default'; "
    line = f"{note}for CartPole-v1, use --config=cartpole"
    assert line in capsys.readouterr().out.splitlines()
    assert "for CartPole, use --config=cartpole" in describe_default("CartPole")
    assert "agents train --list shows other presets" in describe_default("MountainCar-v0")


def test_a_dry_run_shows_what_would_be_trained_and_leaves_nothing(tmp_path, capsys):
    logdir = tmp_path / "logs"
    main([f"--logdir={logdir}", "--config=cartpole", "--layers=5", "--num_envs=3", "--dry-run"])
    lines = capsys.readouterr().out.splitlines()
    for line in ("env: CartPole-v1", "num_envs: 3", "actions: Discrete(2)"):
        assert line in lines
    assert any(line.split() == ["policy/hidden_0/kernel", "4", "x", "5"] for line in lines)
    assert not logdir.exists()
    for refused, words in [
        (["--config=cartpole", "--learners=5"], "5 learners do not divide num_envs 8"),
        (["--config=sac_pendulum", "--learners=2"], "sac trains with one learner, got 2"),
    ]:
        with pytest.raises(UsageError, match=words):
            main([f"--logdir={logdir}", *refused, "--dry-run"])


def test_the_help_shows_the_values_of_the_preset(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for arguments, env in (
        (["--help=all"], "(default: Pendulum-v1)"),
        (["--config=cheetah", "--help=all"], "(default: HalfCheetah-v5)"),
        (["--help", "--config", "cheetah", "--logdir"], "--env=HalfCheetah-v5 "),
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        text = capsys.readouterr().out.replace("\xa0", " ")
        assert env in text and "--logdir" in text


def test_a_failing_environment_is_reported_with_how_to_go_on(tmp_path, capsys):
    def make_env():
        env = CountingEnv(observation_space=UNBOUNDED, action_space=FORCE)
        return FaultyEnv(env, ZeroDivisionError("the motor is hot"), countdown=61)

    gymnasium.register("Fragile-v0", make_env, max_episode_steps=100)
    settings = ["--config=default", "--env=Fragile-v0", "--env-backend=process"]
    try:
        with pytest.raises(SystemExit) as exit:
            main([*ARGUMENTS, f"--logdir={tmp_path}", *settings])
    finally:
        del gymnasium.registry["Fragile-v0"]
    printed = capsys.readouterr().err
    assert exit.value.code == 1
    [path] = tmp_path.iterdir()
    assert "ZeroDivisionError: the motor is hot (environment 0, process" in printed
    assert "in step" in printed and "raise self.fault" in printed  # The worker's traceback.
    assert "To restart environments that fail: --env-restarts='{\"limit\": 10}'\n" in printed
    assert printed.endswith("The run has no checkpoint to resume from: start a new one.\n")
    assert len(printed.splitlines()) <= 12
    whole = (path / "error.txt").read_text()
    assert "Traceback of the environment:" in whole and "training_loop" in whole


@pytest.mark.slow
def test_the_pendulum_preset_killed_at_any_time_resumes_as_if_it_had_never_stopped(tmp_path):
    settings = ["--config=pendulum", "--steps=40000", "--checkpoint-interval=5000"]
    settings.append("--eval-interval=5000")
    command = [sys.executable, "-m", "agents.scripts.train", f"--logdir={tmp_path}"]
    start = time.monotonic()
    subprocess.run([*command, *settings], check=True, capture_output=True)
    duration = time.monotonic() - start
    [never_stopped] = map(RunDirectory.of, tmp_path.iterdir())
    draw = random.Random(0)
    process = subprocess.Popen(
        [*command, *settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
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
        process = subprocess.Popen(
            [*command, f"--timestamp={timestamp}"], stderr=subprocess.DEVNULL
        )
    assert kills
    assert_equal_runs(RunDirectory.of(run), never_stopped)
    assert json.loads(run.joinpath("metrics.jsonl").read_text().splitlines()[-1])["step"] == 40_000
