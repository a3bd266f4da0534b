import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import agents
from agents.command_line.reports import run
from agents.errors import UsageError
from agents.scripts import sweep as sweep_script
from agents.scripts import train as train_script
from agents.settings.config_file import load_config
from agents.storage.run_directory import RunDirectory
from agents.sweeps.search_space import load_space
from agents.sweeps.sweep import Sweep
from agents.sweeps.trial_training import last_score

SPACE = """
learning_rate: {low: 1e-4, high: 1e-2, log: true}
rollout_length: {choices: [25, 50]}
minibatch_size: {choices: [30]}
"""
SMALL = [
    "--config=cartpole", "--env-backend=tf", "--num-envs=2", "--epochs=1", "--layers=4", "--steps=200",
    "--eval-interval=100", "--eval-episodes=2", "--histogram-interval=0",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "small.yaml").write_text(SPACE)
    return folder


def options(folder, *others):
    return [f"--logdir={folder / 'logs'}", f"--space={folder / 'small.yaml'}", *SMALL, *others]


@pytest.fixture(scope="module")
def finished(folder):
    """A sweep of two trials, trained one at a time."""
    sweep_script.main(options(folder, "--trials=1"))
    [path] = (folder / "logs").iterdir()
    timestamp = f"--timestamp={RunDirectory(path).timestamp}"
    sweep_script.main(options(folder, timestamp, "--trials=2"))
    return Sweep(path)


def test_the_same_command_with_a_timestamp_continues_a_sweep(finished):
    assert [result.state for result in finished.results()] == ["complete"] * 2
    assert {path.name for path in finished.path.iterdir()} == {
        "settings.yaml", "space.yaml", "journal.jsonl", "locks", "results.csv", "sweep.png",
        "trial-0000", "trial-0001",
    }  # fmt: skip
    for result in finished.results():
        trial = finished.run(result.number)
        assert result.score == last_score(trial)
        assert trial.load_config().minibatch_size in (25, 50)  # Of 50 or 100 steps.
        assert trial.checkpoint("last").name == "step-200"


def test_the_best_trials_are_printed_with_the_command_that_trains_them_again(
    finished, folder, capsys
):
    sweep_script.main(options(folder, f"--timestamp={finished.timestamp}", "--trials=2"))
    output = capsys.readouterr().out
    best = max(finished.results(), key=lambda result: (result.score, -result.number))
    assert re.search(rf"^ +trial-000{best.number}  trial-000", output, re.MULTILINE)
    again = output.splitlines()[-1]
    assert again.startswith("Train the best settings again: ")
    arguments = again.split("agents.scripts.train ")[1].split()
    train_script.main([*arguments, "--steps=100"])
    [path] = (folder / "logs").glob(f"*-cartpole-trial-000{best.number}")
    config, trial = RunDirectory(path).load_config(), finished.run(best.number).load_config()
    assert config == trial.model_copy(update={"steps": 100, "seed": 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--space=pp"], "unknown search space 'pp'"),
        (["--trials=0"], "--trials: expected an integer from 1 to"),
        (["--learning-rate=2"], "learning_rate: expected a number above 0"),
        (["--learning-rate=0.1", "--rollout-length=25", "--minibatch-size=25"], "has a value for each"),
        (["--env=Pendulumm-v1", "--env-backend=inline"], "Pendulumm"),
        (["--timestamp=2026"], "no such sweep in .*; there are no sweeps"),
    ],
)  # fmt: skip
def test_mistakes_leave_no_folder(folder, tmp_path, arguments, message):
    logdir = tmp_path / "logs"
    given = options(folder, *arguments)
    if arguments[0].startswith("--space"):
        given = [argument for argument in given if "small.yaml" not in argument]
    with pytest.raises(UsageError, match=message):
        sweep_script.main([*given, f"--logdir={logdir}"])
    assert not logdir.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trial=1"], "--sweep=FOLDER and --trial=NUMBER belong together"),
        (["--sweep=x"], "belong together"),
        (["--sweep=x", "--trial=1"], "--sweep=x: .*x is not a sweep, it has no settings.yaml"),
        (["--sweep=x", "--trial=1", "--config=ant"], "--config and --trial exclude each other"),
    ],
)
def test_train_names_mistakes_about_trials(tmp_path, arguments, message):
    with pytest.raises(UsageError, match=message):
        train_script.main([f"--logdir={tmp_path}", *arguments])


def test_train_does_not_resume_a_sweep(tmp_path):
    sweep = Sweep.new(tmp_path, "pendulum", load_config("pendulum"), load_space("ppo"))
    with pytest.raises(UsageError) as caught:
        train_script.main([f"--logdir={tmp_path}", f"--timestamp={sweep.timestamp}"])
    assert str(caught.value).splitlines() == [
        f"--timestamp={sweep.timestamp}: {sweep.path} is a sweep",
        "continue it with agents sweep, or train a trial's settings with --sweep and --trial",
    ]


def test_the_help_lists_spaces_and_the_values_of_the_preset(capsys):
    with pytest.raises(SystemExit):
        run(sweep_script.main, ["--help", "--config=pendulum"])
    text = capsys.readouterr().out
    assert "--space" in text and "usage: agents sweep" in text
    assert re.search(r"--discount .*\(default:\s0.95\)", text, re.DOTALL)


def start(folder, *arguments, code="from agents.scripts.main import main; main()"):
    return subprocess.Popen(
        [sys.executable, "-c", code, "sweep", *arguments], stderr=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(agents.__file__).parents[1])},
    )  # fmt: skip


def wait_for(process, text):
    while text not in (line := process.stderr.readline()):
        assert line, process.wait()


@pytest.mark.timing
@pytest.mark.slow
def test_an_interrupt_saves_a_checkpoint_and_says_how_to_continue(folder, tmp_path):
    long = options(folder, f"--logdir={tmp_path}", "--steps=1000000", "--eval-interval=1000")
    with start(tmp_path, *long, "--trials=2") as process:
        wait_for(process, "evaluation")
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - sent < 60
    [path] = tmp_path.glob("*-sweep-cartpole")
    assert re.search(
        rf"To continue: .*--timestamp={RunDirectory(path).timestamp} --trials=2", printed
    )
    [result] = Sweep(path).results()
    assert result.state == "running"
    assert Sweep(path).run(0).checkpoint("last")


@pytest.mark.slow
def test_the_program_restarts_itself_between_trials(folder, tmp_path):
    code = "import sys; from agents.scripts import sweep; sweep.TRIALS_PER_PROCESS = 1; sweep.main(sys.argv[2:])"
    arguments = options(folder, f"--logdir={tmp_path}", "--trials=2")
    with start(tmp_path, *arguments, code=code) as process:
        printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert printed.count("join or continue it with") == 2
    [path] = tmp_path.glob("*-sweep-cartpole")
    assert [result.state for result in Sweep(path).results()] == ["complete"] * 2


@pytest.mark.slow
def test_two_processes_share_pendulum_and_one_is_killed_and_resumed(tmp_path):
    arguments = [
        f"--logdir={tmp_path}", "--config=pendulum", "--env-backend=tf", "--steps=20000",
        "--eval-interval=4000", "--eval-episodes=5", "--checkpoint-interval=4000", "--trials=8",
    ]  # fmt: skip
    with start(tmp_path, *arguments) as one:
        wait_for(one, "evaluation")
        [path] = tmp_path.glob("*-sweep-pendulum")
        timestamp = f"--timestamp={RunDirectory(path).timestamp}"
        with start(tmp_path, *arguments, timestamp) as other:
            wait_for(other, "evaluation")
            one.kill()
            _, seen = one.communicate()
            left = (["0", *re.findall(r"Trial (\d) of 8:", seen)])[-1]
            with start(tmp_path, *arguments, timestamp) as resumed:
                _, printed = resumed.communicate(timeout=1200)
            other.communicate(timeout=1200)
    assert (other.returncode, resumed.returncode) == (0, 0)
    assert printed.startswith(f"Trial {left} of 8:")
    results = Sweep(path).results()
    assert len(results) == 8
    assert {result.state for result in results} <= {"complete", "pruned"}
    for result in results:
        assert Sweep(path).run(result.number).checkpoint("best")
