"""Measured figures in the text of pages are those that scripts stored.

README, the gallery and the pages of the top level have tests of their own.
"""

import json
import math
import re
import statistics

import pytest

from benchmarks.scaling_guide import write_guide
from tests.docs.pages import PAGES, ROOT


def read(name):
    return json.loads((ROOT / name).read_text())


RESULTS, BENCHMARKS = read("results/results.json"), read("benchmarks/benchmarks.json")
LEARNERS, RUNS = read("benchmarks/distributed.json"), read("results/guide_runs.json")
SAC = read("benchmarks/sac.json")
HARNESSES = {
    line["harness"]: line["figures"]
    for line in map(json.loads, (ROOT / "tests/faults/figures.jsonl").read_text().splitlines())
    if "harness" in line
}
ENVS = ("Pendulum-v1", "HalfCheetah-v5")


def median(suite, case, contestant="ours"):
    stored = {"distributed": LEARNERS, "sac": SAC}.get(suite, BENCHMARKS)
    return stored[suite][case][contestant]["median"]


def ratio(suite, case, peer):
    """How many times as fast as a peer we are."""
    return BENCHMARKS[suite][case][f"ratio_{peer}"]


def minutes(row):
    return RESULTS[row]["seconds"] / 60


def start():
    row = RESULTS["pendulum"]
    seeds = {3: "three", 5: "five", 10: "ten"}[len(row["returns"])]
    assert row["curves"]["steps"][0] == 10_000
    first = statistics.mean(curve[0] for curve in row["curves"]["returns"])
    assert math.ceil(minutes("pendulum")) == 1
    yield "Then training takes less than a minute."
    yield (
        f"Over {seeds} seeds, the mean return is {first:,.0f} after 10,000 steps "
        f"and {row['mean']:.0f} at the end"
    )


def questions():
    both = f"{minutes('cheetah'):.1f} minutes with PPO and {minutes('sac'):.0f} with SAC"
    yield f"a million steps of HalfCheetah-v5 took {both}"
    speed = median("sac", "HalfCheetah-v5/sac")
    yield f"makes {speed:.0f} steps per second: a million takes {1e6 / speed / 60:.0f} minutes"
    short, long, sac = (RESULTS[row] for row in ("cheetah", "cheetah_3m", "sac"))
    yield (
        f"PPO returns {short['mean']:,.0f} after {minutes('cheetah'):.1f} minutes "
        f"and {long['mean']:,.0f} after {minutes('cheetah_3m'):.1f}"
    )
    at = next(i for i, step in enumerate(sac["curves"]["steps"]) if step >= 150_000)
    then = statistics.mean(curve[at] for curve in sac["curves"]["returns"])
    spent = minutes("sac") * sac["curves"]["steps"][at] / sac["steps"]
    yield (
        f"SAC returns {then:,.0f} after {spent:.0f} minutes "
        f"and {sac['mean']:,.0f} after {minutes('sac'):.0f}"
    )
    yield f"two million of Breakout took {minutes('breakout'):.0f} minutes with PPO"
    yield from tuning_sac()


def comparison():
    for label, case in {
        "Pendulum-v1, Gymnasium's": "Pendulum-v1/process/8",
        "HalfCheetah-v5, Gymnasium's": "HalfCheetah-v5/process/8",
        "Pendulum-v1, in TensorFlow here, 2 threads": "Pendulum-v1/tf/8",
    }.items():
        cells = [f"{median('training', case, name):,.0f}" for name in ("ours", "SB3", "skrl")]
        yield f"| {label} | {' | '.join(cells)} |"
    envpool = 1 / ratio("stepping", "Pendulum-v1/process/32", "EnvPool")
    rltools = 1 / ratio("training", "Pendulum-v1/tf/4", "RLtools")
    cold = "Pendulum-v1/process/8/cold"
    sooner = median("startup", cold) - median("startup", cold, "SB3")
    yield f"EnvPool steps 32 Pendulums {envpool:.1f} times as fast"
    yield f"RLtools trains its own benchmark {rltools:.1f} times as fast"
    yield f"Stable-Baselines3 starts {sooner:.1f} s sooner"


def speed():
    cases = ("Pendulum-v1/{}/8", "Pendulum-v1/{}/32", "HalfCheetah-v5/{}/8")
    for case in (*cases, "HalfCheetah-v5/{}/32"):
        env, _, number = case.split("/")
        cells = [
            f"{median('training', name):,.0f}"
            for name in map(case.format, ("process", "hybrid"))
            if name in BENCHMARKS["training"]
        ]
        yield f"| {number} x {env} | {' | '.join(cells)} |"
    tf = "Pendulum-v1/tf/8"
    alone = median("training", tf, "1 thread")
    yield f"| {alone:,.0f}; {median('training', tf):,.0f} with 2 threads |"
    threads = sorted(
        ratio("training", f"{env}/tf/8", "1 thread") for env in ("Pendulum-v1", "CartPole-v1")
    )
    yield f"training was {threads[0]:.1f} to {threads[1]:.1f} times as fast. Beside"
    uneven = "Pendulum-v1/lognormal/8"
    for label, name in {
        "`wait_for` 1": "together",
        "`wait_for` 0.5": "half",
        "`wait_for` 0.01": "ours",
        "Gymnasium's `AsyncVectorEnv`, without a policy": "AsyncVectorEnv",
    }.items():
        steps = median("stepping", uneven, name)
        share = steps / BENCHMARKS["stepping"][uneven]["limit"]
        yield f"| {label} | {steps:,.0f} | {share:.0%} |".replace("%", " %")
    cold, warm = (
        BENCHMARKS["startup"][f"Pendulum-v1/process/8/{kind}"] for kind in ("cold", "warm")
    )
    tensorflow = re.search(r"TensorFlow ([\d.]+) s", cold["ours"]["note"])[1]
    yield f"ends {cold['ours']['median']:.1f} seconds after the start; {tensorflow} of them import"
    yield f"its first iteration ends after {warm['ours']['median']:.1f} seconds"
    minibatch = median("update", "Pendulum-v1/minibatch/64")
    yield f"{minibatch} ms on one core with 64-64 networks"
    yield f"10 epochs allow at most {round(64 / 10 / minibatch) * 1000:,} steps per second"
    logging = [median("training", f"Pendulum-v1/{name}/logging") for name in ("process", "tf")]
    yield f"{logging[0]:.1f} % of a training with worker processes and {logging[1]:.1f} % with `tf`"


def sac():
    stored = read("benchmarks/sac.json")["sac"]["HalfCheetah-v5/sac"]
    two, one = (1000 / stored[name]["median"] for name in ("ours", "1 thread"))
    yield f"SAC takes {two:.1f} ms a step with two threads, and {one:.1f} ms with one"
    short, long = (RESULTS[preset] for preset in ("sac_pendulum", "pendulum"))
    yield f"mean return is {short['mean']:.0f} after {short['steps']:,} steps"
    yield f"`pendulum` has {long['mean']:.0f} after {long['steps']:,}"
    three, other = RESULTS["sac"], RESULTS["cheetah"]
    assert len(three["returns"]) == 3 and len(other["returns"]) == 10
    assert {round(each["steps"] / 1e6, 2) for each in (three, other)} == {1.0}
    yield f"`sac` returns {three['mean']:,.0f} (three seeds), `cheetah` {other['mean']:,.0f} (ten)"


def scaling():
    several = {
        network: median("distributed", f"{network}/learners/2")
        / median("distributed", f"{network}/learners/1")
        for network in ("nature", "64-64")
    }
    yield f"take {several['nature']:.1f} times as many steps per second as one"
    assert abs(several["64-64"] - 1 / 3) < 0.02
    yield "With 64-64 units they reach a third of the speed of one."
    reduction = "reductions/learners/2"
    tensorflow = median("distributed", reduction, "TensorFlow")
    yield f"takes {tensorflow:.1f} ms with TensorFlow's collectives"
    yield f"{median('distributed', reduction):.2f} ms in shared memory"
    weak = LEARNERS["distributed"]["64-64/weak"]
    count = weak["ours"]["parts"]["sums"]
    assert abs(count * tensorflow - 500) < 25
    yield f"The {count} reductions of 64-64 networks take half a second"
    yield f"a whole iteration of one learner takes {weak['1 learner']['median']:.0f} ms"


def faults():
    stops = [
        HARNESSES[f"SIGINT and SIGTERM in {place}"]
        for place in ("hung environments", "an evaluation", "a save")
    ]
    ended = max(each["most_seconds_to_exit"] for each in stops)
    yield f"{sum(each['cases'] for each in stops)} processes ended within {ended:.1f} s."
    kills = [HARNESSES[f"SIGKILL of {name}"] for name in ("processes that save", "trainings")]
    total, resumed = (sum(each[key] for each in kills) for key in ("kills", "resumes"))
    yield f"{resumed} of {total} killed runs resumed."
    equal = [figures for name, figures in HARNESSES.items() if name.startswith("resumed against")]
    total, same = (sum(each[key] for each in equal) for key in ("resumed", "equal_hashes"))
    yield f"{same} of {total} resumed runs had equal checkpoints."
    yield f"| *after {HARNESSES['crash faults in BatchEnv']['seconds_until_error']} s* |"
    workers = HARNESSES["SIGKILLs of random workers during training"]
    yield f"{workers['kills']:,} SIGKILLs of its workers"
    yield f"with a median of {workers['median_restart_ms']:.0f} ms for a restart"
    parents = HARNESSES["parent killed, workers idle, asleep, holding the GIL, with grandchildren"]
    assert not parents["left"]
    seconds = parents["longest_seconds"]
    yield f"of {parents['kills']} killed parents, no worker was left after {seconds} s"
    damaged = HARNESSES["damaged checkpoints"]
    assert not damaged["wrong_values"]
    yield f"In {damaged['cases']} ways of damage, no wrong value was loaded."


def tutorial():
    figures = RUNS["tutorial"]
    steps = figures["train"]
    yield from (" ".join(line.split()) for line in figures["check"])
    yield " ".join([*steps[:3], "...", steps[-1]])
    scores, scalars = figures["scores"], figures["scalars"]
    first, last = scores["0.99"][0][0], scores["0.99"][0][-1]
    yield f"delivers {first:.1f} parcels in a shift after 10,240 steps and {last:.1f} at the end"
    for tag, trend in {"episode/return": "rises", "losses/entropy": "falls"}.items():
        values = scalars[tag]
        yield f"| {trend} from {values[0]:.1f} to {values[-1]:.1f} |"
    explained = scalars["losses/explained_variance"]
    yield f"| rises from {explained[0]:.1f} to {explained[-1]:.1f}; the next"
    assert max(scalars["losses/approx_kl"]) < 0.01
    yield "| below 0.01 throughout |"
    for discount, runs in scores.items():
        cells = [", ".join(f"{run[index]:.1f}" for run in runs) for index in (1, -1)]
        yield f"| {discount} | {cells[0]} | {cells[1]} |"


def tuning():
    yield f"reaches about {round(RESULTS['pendulum']['mean'], -1):.0f} in a minute"
    for change, entry in RUNS["tuning"].items():
        scores = sorted((run[-1] for run in entry["scores"]), reverse=True)
        # First, least, largest and last values, each over the seeds.
        kl, clipped, explained, entropy = (
            list(zip(*entry[f"losses/{name}"], strict=True))
            for name in ("approx_kl", "clip_fraction", "explained_variance", "entropy")
        )
        cells = (
            change,
            ", ".join(f"{score:,.0f}" for score in scores),
            f"{max(kl[2]):,.0f}" if max(kl[2]) > 1 else f"{max(kl[2]):.3f}",
            f"{max(clipped[2]):.2f}",
            f"{min(explained[1]):.2f}",
            f"{statistics.median(entropy[0]):.1f}, {statistics.median(entropy[-1]):.1f}",
        )
        yield f"| {' | '.join(cells)} |"


def two_digits(number):
    return f"{float(f'{number:.2g}'):,g}" if abs(number) < 1e5 else f"{number / 1e6:.1f} million"


def tuning_sac():
    for change, entry in RUNS["tuning_sac"].items():
        scores = sorted((run[-1] for run in entry["scores"]), reverse=True)
        critic, entropy, coef = (  # Last values.
            sorted(run[-1] for run in entry[tag])
            for tag in ("losses/critic", "losses/entropy", "schedule/entropy_coef")
        )
        cells = (
            change,
            ", ".join(f"{score:,.0f}" for score in scores),
            *(
                f"{two_digits(low)} to {two_digits(high)}"
                for low, *_, high in (critic, entropy, coef)
            ),
        )
        yield f"| {' | '.join(cells)} |"


def several_learners():
    longest = max(
        figures["most_seconds_to_last_end"]
        for name, figures in HARNESSES.items()
        if name.startswith("learners: ")
    )
    assert longest < 30
    yield "all others stop within 30 seconds"


FIGURES = {
    "docs/index.md": start,
    "docs/faq.md": questions,
    "docs/compare.md": comparison,
    "docs/tutorial.md": tutorial,
    "docs/guides/speed.md": speed,
    "docs/guides/sac.md": sac,
    "docs/guides/scaling.md": scaling,
    "docs/guides/several-learners.md": several_learners,
    "docs/guides/faults.md": faults,
    "docs/guides/tuning.md": tuning,
}
A_SPEED = re.compile(r"\d (?:times as (?:fast|many)|steps/s|steps per second|µs|minutes)")


def plain(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_stored(name):
    text = plain(PAGES[name].read_text())
    assert [each for each in FIGURES[name]() if each not in text] == []


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"README.md"}))
def test_every_speed_is_stored(name):
    text = plain(PAGES[name].read_text())
    for stored in FIGURES.get(name, list)():
        text = text.replace(stored, "")
    assert A_SPEED.findall(text) == []


def test_the_table_of_scaling_is_that_of_the_stored_figures(tmp_path):
    page, origin = PAGES["docs/guides/scaling.md"].read_text(), LEARNERS["origins"]["distributed"]
    (tmp_path / "scaling.md").write_text(page)
    occasion = f"on {origin['date']}, {origin['machine']}, load average {origin['load']} before"
    write_guide(tmp_path / "scaling.md", LEARNERS["distributed"], f"Measured {occasion}")
    assert (tmp_path / "scaling.md").read_text() == page
