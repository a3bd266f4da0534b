"""Inspections as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from agents.environments.inspection.finding import Finding
from agents.environments.inspection.inspection import Inspection
from agents.environments.inspection.random_steps import RandomSteps


def describe(env: str, inspection: Inspection) -> list[str]:
    """Returns the lines that tell what was seen."""
    limit = inspection.time_limit
    lines = [
        env,
        f"  observations  {inspection.observation_space}",
        f"  actions       {inspection.action_space}",
        f"  time limit    {f'{limit:,} steps' if limit else 'none'}",
    ]
    return lines + (_describe_steps(inspection.steps) if inspection.steps else [])


def _describe_steps(steps: RandomSteps) -> list[str]:
    reward, lengths = steps.reward, steps.lengths
    ended = f"{len(lengths):,} ended" if lengths else "none ended"
    if lengths:
        mean = sum(lengths) / len(lengths)
        ended += f", after {min(lengths):,} to {max(lengths):,} steps (mean {mean:,.0f})"
        ended += f", returns {min(steps.returns):.4g} to {max(steps.returns):.4g}"
    speed = 1 / steps.step_seconds
    return [
        f"  random steps  {len(reward):,}, rewards {reward.min():.4g} to {reward.max():.4g}",
        f"  episodes      {ended}",
        f"  speed         {speed:,.0f} steps/s, a reset takes {1e3 * steps.reset_seconds:.3g} ms",
    ]


def describe_findings(findings: Sequence[Finding]) -> list[str]:
    """Returns the lines that tell what to change."""
    if not findings:
        return ["Nothing to change."]
    lines = []
    for finding in findings:
        kind = "error" if finding.is_error else "warning"
        lines += [f"{kind}: {finding.problem}", f"  {finding.advice}"]
    return lines
