"""Suite: scores over wall clock."""

from __future__ import annotations

import functools
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.case import OURS, Case, Contestant
from benchmarks.clock_process import Program, watch
from benchmarks.clock_runs import EPISODES, Run, RunFile, points_of, steps_within
from benchmarks.machine import load_average, machine, versions
from benchmarks.peers import clean_rl, installation
from benchmarks.peers.installation import PeerError, interpreter
from benchmarks.runner import Outcome

TITLE = "Scores over wall clock"
INTRO = f"""\
Returns after 2, 5 and 10 minutes of wall clock on 2 cores, one run at a time; the start of the process counts. The
score of a run is the mean return of the last {EPISODES} training episodes that had finished, before normalization and
clipping of rewards. Every library reports these itself: no contestant spends time on evaluations that another one does
without, and no program had to be changed. They are returns of the policy that explores, which are lower than those of
its modes. Figures are medians over the seeds that have been run, with their number.

Each library trains as its authors say: ours by the presets `cheetah`, `hopper`, `pong` and `lunar_lander`, logging and
writing checkpoints as usual; Stable-Baselines3 by RL-Zoo's tuned settings; CleanRL by the defaults of its scripts
`ppo_continuous_action.py`, `ppo_atari.py` and `ppo.py`; rl_games by the files of its package for these tasks, with
environments of EnvPool. Two things are set: no evaluations (ours; the peers have none), and the number of steps, which
schedules of learning rates follow. It is what the library makes in 10 minutes, measured in a pilot of two. CleanRL's
Gymnasium 0.29 has version 4 of HalfCheetah and Hopper and version 2 of LunarLander. Our run in HalfCheetah is of the
MuJoCo presets as they were before: 16 environments, minibatches of 64, a discount of 0.995 and a KL stop at 0.02.

Runs are kept in `benchmarks/clock.json`, and are not repeated; `--rounds=0` shows those that are there."""

CLOCK, PILOT = 600.0, 120.0  # Seconds of a run, and of the one that measures speed.
MINUTES = (2, 5, 10)
SEEDS = 3
PATH = Path(__file__).with_name("clock.json")
_QUICK_CLOCK, _QUICK_PILOT = 120.0, 60.0
_QUICK = ("LunarLander-v3",)  # The others end too few episodes within two minutes.

_CONTESTANTS = {OURS: "ours", "SB3": "sb3", "CleanRL": "cleanrl", "rl_games": "rl_games"}

# Our presets by environment.
_PRESETS = {
    "HalfCheetah-v5": "cheetah",
    "Hopper-v5": "hopper",
    "Pong": "pong",
    "LunarLander-v3": "lunar_lander",
}

# Its scripts by environment, and the environment's name in its Gymnasium.
_SCRIPTS_OF_CLEANRL = {
    "HalfCheetah-v5": ("ppo_continuous_action.py", "HalfCheetah-v4"),
    "Hopper-v5": ("ppo_continuous_action.py", "Hopper-v4"),
    "Pong": ("ppo_atari.py", "PongNoFrameskip-v4"),
    "LunarLander-v3": ("ppo.py", "LunarLander-v2"),
}

# rl_games' configuration files by environment, and the environment's name in EnvPool.
_FILES_OF_RL_GAMES = {
    "HalfCheetah-v5": ("mujoco/halfcheetah_envpool.yaml", "HalfCheetah-v5"),
    "Hopper-v5": ("mujoco/hopper_envpool.yaml", "Hopper-v5"),
    "Pong": ("atari/ppo_pong_envpool.yaml", "Pong-v5"),
    "LunarLander-v3": ("ppo_lunar_discrete.yaml", "LunarLander-v3"),
}

_quick_runs = RunFile()


def cases(quick: bool) -> list[Case]:
    """Returns a case for every environment and time; all times of an environment share its runs."""
    clock = _QUICK_CLOCK if quick else CLOCK
    return [
        Case(
            f"{env}/{minutes * clock / CLOCK:g} of {clock / 60:g} min",
            "return",
            tuple(
                Contestant(name, f"{__name__}:{function}", {"env": env})
                for name, function in _CONTESTANTS.items()
            ),
            rounds=1 if quick else SEEDS,
            seconds=minutes / MINUTES[-1] * clock,
        )
        for env in (_QUICK if quick else _PRESETS)
        for minutes in MINUTES
    ]


def kept_runs() -> list[Run]:
    """Returns the quick runs of this process, if it has made any, or else those of the file."""
    return _quick_runs.runs or RunFile(PATH).runs


def ours(env: str, steps: int, seed: int) -> Program:
    """Returns our training command."""
    settings = [f"--config={_PRESETS[env]}", f"--steps={steps}", f"--seed={seed}"]
    options = ["--logdir=logdir", f"--eval-interval={10**12}", *settings]
    return Program([sys.executable, "-m", "benchmarks.clock_ours", *options])


def sb3(env: str, steps: int, seed: int) -> Program:
    """Returns the program that trains with Stable-Baselines3."""
    return Program([sys.executable, "-m", "benchmarks.clock_sb3", env, str(steps), str(seed)])


def cleanrl(env: str, steps: int, seed: int) -> Program:
    """Returns the script of CleanRL that trains in this environment, with its defaults."""
    script, older = _SCRIPTS_OF_CLEANRL[env]
    settings = [f"--env-id={older}", f"--total-timesteps={steps}", f"--seed={seed}", "--no-cuda"]
    return Program([str(interpreter("cleanrl")), *clean_rl.program(script), *settings])


def rl_games(env: str, steps: int, seed: int) -> Program:
    """Returns the program that trains with rl_games, by a file of its package."""
    file, name = _FILES_OF_RL_GAMES[env]
    arguments = ["-m", "benchmarks.peers.rl_games_clock", file, name, str(steps), str(seed)]
    return Program([str(interpreter("rl_games")), *arguments])


def run_case(case: Case, log: Callable[[str], None] = lambda line: None) -> Outcome:
    """Makes the runs of a case that have not been made, one after another, and returns all scores.

    Args:
      case: One of `cases`; its rounds are the seeds to make runs for, its seconds the time of scores.
      log: Receives a line for every run that is made, and every contestant that is left out.

    Returns:
      The scores, of as many seeds as each contestant has runs of, which may be more than rounds.
    """
    env = case.name.partition("/")[0]
    is_quick = case.name in {each.name for each in cases(quick=True)}
    clock, pilot = (_QUICK_CLOCK, _QUICK_PILOT) if is_quick else (CLOCK, PILOT)
    runs = _quick_runs if is_quick else RunFile(PATH)
    outcome = Outcome(case, figures={})
    for seed in range(case.rounds):
        for contestant in case.contestants:
            name = contestant.name
            if name in outcome.left_out or runs.find(env, name, clock, seed):
                continue
            try:
                runs.add(_make_run(env, contestant, seed, clock, pilot, runs, log))
            except (RuntimeError, ValueError, ImportError, PeerError) as error:
                outcome.left_out[name] = str(error)
                log(f"  left out: {name}: {error}")
    for contestant in case.contestants:
        _add_scores(outcome, contestant.name, runs.of(env, contestant.name, clock))
    if OURS not in outcome.figures:
        outcome.figures.clear()
    return outcome


def _make_run(
    env: str,
    contestant: Contestant,
    seed: int,
    clock: float,
    pilot: float,
    runs: RunFile,
    log: Callable[[str], None],
) -> Run:
    module, function = contestant.function.split(":")
    program: Callable[..., Program] = functools.partial(
        getattr(importlib.import_module(module), function), **contestant.settings
    )
    others = runs.of(env, contestant.name, clock)
    if others:
        budget = others[0].budget
    else:
        # Far more steps than it makes.
        budget = steps_within(watch(program(steps=10**9, seed=0), pilot), clock)
    load = load_average()
    episodes = watch(program(steps=budget, seed=seed), clock)
    about = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "load": f"{load:.1f}"}
    run = Run(
        env=env,
        contestant=contestant.name,
        seed=seed,
        clock=clock,
        budget=budget,
        points=points_of(episodes, clock),
        about={**about, **versions(), **installation.versions()},
    )
    last = run.points[-1]
    log(f"  {contestant.name}, seed {seed}: {last.score} at {last.steps:,} of {budget:,} steps")
    return run


def _add_scores(outcome: Outcome, name: str, runs: list[Run]) -> None:
    """Adds the scores of a contestant's runs at the time of the case, if it has any."""
    points = [run.at(outcome.case.seconds) for run in runs]
    scores = [point.score for point in points if point.score is not None]
    if not scores:
        outcome.left_out.setdefault(name, "no run in which an episode ended by then")
        return
    outcome.figures[name] = scores
    outcome.notes[name] = f"{len(scores)} seed{'s' if len(scores) > 1 else ''}"
    outcome.parts[name] = [{"steps": statistics.median(point.steps for point in points)}]
