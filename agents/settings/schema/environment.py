"""Which environments an experiment trains in, and where they run."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agents.settings.schema.field_types import (
    Count,
    Name,
    Names,
    PlainDict,
    PositiveFraction,
    Restarts,
    Size,
)


class EnvironmentSettings(BaseModel):
    """Which environments an experiment trains in, and where they run."""

    model_config = ConfigDict(frozen=True)

    env: Name = Field(
        "Pendulum-v1",
        description="Gymnasium id; my_module:MyEnv-v0 imports the module that registers it.",
    )
    env_kwargs: PlainDict = Field(
        {}, description="Keyword arguments of the environment's constructor."
    )
    reset_options: PlainDict = Field({}, description="Options for every reset of the environment.")
    env_backend: Literal["process", "hybrid", "inline", "envpool", "tf"] = Field(
        "process",
        description="Where environments run: in worker processes; hybrid, a share of them in the "
        "training process; inline, all there (to debug, or for very light environments); in "
        "EnvPool's threads; or in the TensorFlow graph (tf).",
    )
    num_envs: Size = Field(
        8,
        description="Number of environments stepped in parallel; more of them use more cores and "
        "enlarge each rollout.",
    )
    num_processes: Count = Field(
        0,
        description="Processes that step environments, or EnvPool's threads; 0 for one per core.",
    )
    wait_for: PositiveFraction = Field(
        1.0,
        description="Fraction of the busy worker processes that each turn waits for, at least one; "
        "below 1, slow environments do not hold up the others. The results stay the same.",
    )
    env_restarts: Restarts = Field(
        Restarts(),
        description="Restarts environments that raise, die, hang or return invalid data: at most "
        "limit of them within window seconds. Their episodes are cut and left out of all returns.",
    )
    max_episode_steps: int = Field(
        0,
        ge=0,
        le=10**12,
        description="Time limit that truncates an episode, in steps of one environment; "
        "0 for the environment's own.",
    )
    action_repeat: int = Field(
        1,
        ge=1,
        le=1000,
        description="Number of environment steps to repeat each action for; above 1 if single "
        "steps change little.",
    )
    env_wrappers: Names = Field(
        (),
        description="Wrappers of every environment, innermost first, such as my_module:MyWrapper.",
    )
    train_wrappers: Names = Field(
        (),
        description="Additional wrappers of the training environments only: for shaped rewards or "
        "shorter episodes that evaluation should not see.",
    )
    action_mask: bool = Field(
        False,
        description="Masks invalid actions with the action_mask in the environment's infos.",
    )
    info_keys: Names = Field(
        (), description="Numeric info entries to log as info/<key>, averaged between log points."
    )
