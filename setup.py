"""Packaging of the library. Everything that is not about packaging is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "agents" / "__init__.py").read_text())[1]

REQUIRED = [
    "tensorflow>=2.18",  # Brings Keras 3, which makes the networks and optimizers.
    "gymnasium[classic-control]>=1.1",  # The environments' interface, with same-step autoreset; pygame draws them.
    "numpy",
    "tensorboard",  # TensorFlow 2.21 no longer installs it.
    "cloudpickle",  # Carries constructors, lambdas included, to worker processes.
    "pydantic>=2.10",  # The typed schema of the configuration, and its errors.
    "pydantic-settings>=2.7",  # The same schema as a command line.
    "ruamel.yaml",  # Reads 1e-4 as a number and refuses duplicate keys; PyYAML does neither.
    "matplotlib",  # Draws the curves of a run.
    "imageio-ffmpeg",  # Brings the ffmpeg that writes videos.
    "tqdm",  # The progress line.
]
# What brings each family of environments; agents/families/family.py names these extras where a package is missing.
FAMILIES = {
    "atari": ["ale-py>=0.10.1", "opencv-python-headless"],  # The games; OpenCV, without windows, scales pictures.
    "box2d": ["gymnasium[box2d]>=1.1"],
    "bullet": ["pybullet>=3.2.7", "pybullet-envs-gymnasium>=0.6"],
    # Shimmy is Gymnasium's interface to dm_control, which as of 1.0.50 does not work with MuJoCo 4.
    "dm-control": ["dm-control>=1.0.20", "shimmy>=2.0", "mujoco<4"],
    "minigrid": ["minigrid>=2.5"],
    "mujoco": ["gymnasium[mujoco]>=1.1"],
}
# For newer Pythons these come as source only: PyBullet takes minutes to build, labmaze (of dm_control) takes Bazel.
BINARY = {"bullet": "python_version < '3.12'", "dm-control": "python_version < '3.13'"}
EXTRAS = {
    **FAMILIES,
    # Environments in C++. Exact resuming needs its list of seeds; 1.2.5 is what was tried. Not there for Python 3.10.
    "envpool": ["envpool>=1.2.5; python_version >= '3.11'"],
    "bench": [
        "torch==2.13.0",  # Pinned: later releases bring gigabytes of CUDA where PyTorch's own index is out of reach.
        "stable-baselines3",
        "skrl",
        "envpool==1.2.5; python_version >= '3.11'",
        "gymnasium[mujoco]>=1.1",
    ],
    "test": [
        "pytest",
        "pytest-xdist",  # Runs the files of tests on all cores, in half the time.
        "hypothesis",
        "scipy",
        "ruff",
        "mypy",
        # Tests of environments are skipped where what they need is missing, unnoticed.
        "envpool>=1.2.5; python_version >= '3.11'",
        *(f"{package}; {BINARY.get(name, '')}".rstrip("; ") for name in FAMILIES for package in FAMILIES[name]),
    ],
}

setup(
    name="agents",
    version=VERSION,
    description="Batched reinforcement learning in TensorFlow: environments in parallel, inside the graph that learns.",
    long_description=(ROOT / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=[
        "agents",
        "agents.distributions",
        "agents.envs",
        "agents.families",
        "agents.networks",
        "agents.parts",
        "agents.ppo",
        "agents.presets",
        "agents.runs",
        "agents.scripts",
        "agents.tools",
    ],
    package_data={"agents.presets": ["*.yaml"]},
    install_requires=REQUIRED,
    extras_require=EXTRAS,
)
