"""Writes docs/gallery.md and its animations from results/runs.

`python scripts/gallery.py` draws every run, `python scripts/gallery.py cheetah hopper` those two, and
`--page` writes the page only.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import agents
from agents.environments.video import RecordEpisode
from agents.runs.metrics_file import read_metrics
from agents.runs.run_directory import RunDirectory
from agents.seeds import Seeds
from agents.types import Env

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "results" / "runs"
PAGE = ROOT / "docs" / "gallery.md"
IMAGES = ROOT / "docs" / "images" / "gallery"
SECONDS = 5
FORMAT = ["-vf", "fps=12,scale=200:-2", "-c:v", "libwebp_anim", "-quality", "30", "-loop", "0"]
MAX_BYTES = 300_000

HEAD = f"""\
# Gallery

The repository holds {{count}} trained policies.
This page shows each of them, its score, and the lines that load and watch it.

- An animation is the first {SECONDS} seconds of an evaluation episode.
- A score is the mean return of the run's last evaluation, with the population standard deviation over its 20 episodes.
- Scores on another machine differ slightly.
- A run is the median seed of its row in [the results](../results/details.md#all-rows), of those trained first.

Run the lines in a clone with the environments installed:

```sh
pip install -e '.[box2d,dm-control,minigrid,mujoco]'
```

A shell command writes the same video, its score and the learning curves into `videos` in the run's folder:

```sh
agents visualize --logdir=results/runs/cheetah --episodes=1
```

Drawing MuJoCo without a display needs a library: see [Families](guides/families.md).
`scripts/gallery.py` writes this page.
"""

SECTION = """
## {name}

![{env} with the policy of {name}](images/gallery/{name}.webp)

`{env}`, {steps:,} steps of {algorithm}: **{mean:{digits}} ± {std:{digits}}**

<!-- not run: draws a whole episode; tests/docs/test_gallery.py loads the policy -->
```python
import agents

policy = agents.load_policy("results/runs/{name}")
agents.visualize("results/runs/{name}", episodes=1)
```
"""


def run_names() -> list[str]:
    """Returns the names of the runs, sorted."""
    return sorted(path.name for path in RUNS.iterdir())


def page() -> str:
    """Returns the page as Markdown."""
    return HEAD.format(count=len(run_names())) + "".join(map(_section, run_names()))


def draw(name: str) -> None:
    """Writes the animation of a run.

    Raises:
      ValueError: The animation is too large for the repository.
    """
    from agents.deployment.recording import Source, play

    run = RunDirectory(RUNS / name)
    config = run.load_config()
    seed = int(Seeds(config.seed).many("evaluation", config.eval_episodes)[0])
    with tempfile.TemporaryDirectory() as folder:
        video = Path(folder) / "episode.mp4"

        def record(_: int, env: Env) -> Env:
            return RecordEpisode(env, video, 1 / config.action_repeat)

        with Source(run, config).drawing(1, record) as envs:
            frame_rate = envs[0].metadata.get("render_fps", 30)
            policy = agents.load_policy(run.path)
            play(envs, policy, seed, round(SECONDS * frame_rate / config.action_repeat))
        _convert(video, IMAGES / f"{name}.webp")


def _section(name: str) -> str:
    run = RunDirectory(RUNS / name)
    config, last = run.load_config(), read_metrics(run.metrics_file)[-1]
    mean, std = last["eval/return_mean"], last["eval/return_std"]
    return SECTION.format(
        name=name,
        env=config.env,
        steps=int(last["step"]),
        algorithm=config.algorithm.upper(),
        mean=mean,
        std=std,
        digits=".2f" if abs(mean) < 10 else ".1f" if abs(mean) < 1000 else ",.0f",
    )


def _convert(video: Path, image: Path) -> None:
    """Converts the start of a video into an animation."""
    from imageio_ffmpeg import get_ffmpeg_exe

    image.parent.mkdir(parents=True, exist_ok=True)
    source = ["-y", "-loglevel", "error", "-t", str(SECONDS), "-i", str(video)]
    subprocess.run([get_ffmpeg_exe(), *source, *FORMAT, str(image)], check=True)
    if image.stat().st_size > MAX_BYTES:
        raise ValueError(f"{image} has {image.stat().st_size} bytes; expected at most {MAX_BYTES}")


def main() -> None:
    """Runs the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="names in results/runs; default all")
    parser.add_argument("--page", action="store_true", help="draw nothing, write the page only")
    options = parser.parse_args()
    for name in [] if options.page else options.runs or run_names():
        draw(name)
        print(name, flush=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
