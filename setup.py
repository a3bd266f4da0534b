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
EXTRAS = {
    # Environments in C++. Exact resuming needs its list of seeds; 1.2.5 is what was tried. Not there for Python 3.10.
    "envpool": ["envpool>=1.2.5; python_version >= '3.11'"],
    "bench": [
        "torch==2.13.0",  # Pinned: later releases bring gigabytes of CUDA where PyTorch's own index is out of reach.
        "stable-baselines3",
        "skrl",
        "envpool==1.2.5; python_version >= '3.11'",
        "gymnasium[mujoco]>=1.1",
    ],
    "mujoco": ["gymnasium[mujoco]>=1.1"],
    "test": [
        "pytest",
        "hypothesis",
        "scipy",
        "ruff",
        "mypy",
        "gymnasium[mujoco]>=1.1",
        "envpool>=1.2.5; python_version >= '3.11'",  # Its tests are skipped where it is missing, unnoticed.
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
