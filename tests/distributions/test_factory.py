import sys
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.distributions.factory import make_action_distribution, scaled_dimensions
from agents.distributions.gaussian import ParametricGaussian
from agents.distributions.joint import ParametricJoint
from agents.errors import UnsupportedSpaceError, UsageError
from agents.settings.config import POLICIES
from agents.settings.config_file import load_config
from tests.deployment.untrained import KINDS
from tests.distributions.cases import BOX, CASES

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "distributions.md"


def test_the_configuration_determines_the_standard_deviation():
    config = load_config("default", state_dependent_std=True, initial_log_std=-0.5)
    for policy in ("gaussian", "squashed_gaussian"):
        parametric = make_action_distribution(BOX, config.model_copy(update={"policy": policy}))
        mean, log_std = parametric.parameters
        assert (mean.initial, mean.independent) == (0, False)
        assert (log_std.initial, log_std.independent) == (-0.5, False)


@pytest.mark.parametrize("shape", [(), (1,), (8,), (2, 3)])
def test_a_divided_deviation_gives_noise_of_equal_norm_in_all_dimensions(shape):
    config = load_config("default", initial_log_std=-0.5, divide_initial_std=True)
    _, log_std = make_action_distribution(spaces.Box(-1, 1, shape), config).parameters
    assert log_std.size * np.exp(log_std.initial) ** 2 == pytest.approx(np.exp(-0.5) ** 2)


def refused(space, policy="gaussian", named=None):
    """Returns the message for a space and a policy, which names the space or a part of it."""
    with pytest.raises(UnsupportedSpaceError) as caught:
        make_action_distribution(space, load_config("default", policy=policy))
    assert str(named or space) in str(caught.value) and len(str(caught.value).splitlines()) <= 3
    return str(caught.value)


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "gaussian"])
def test_bounded_policies_need_bounds(policy):
    for box in (
        spaces.Box(-np.inf, np.inf, (2,)),
        spaces.Box(np.zeros(2), np.array([1, np.inf]), dtype=np.float64),
    ):
        for space in (box, spaces.Dict(a=spaces.Discrete(2), b=box)):
            assert policy in refused(space, policy, box)
            make_action_distribution(space, load_config("default"))


@pytest.mark.parametrize("policy", [*POLICIES[1:], "my_module:my_function"])
def test_policies_of_boxes_are_refused_without_a_box(policy):
    discrete = spaces.Discrete(2)
    for space in (discrete, spaces.Tuple((spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)))):
        first, second = refused(space, policy).splitlines()
        assert first == f"policy '{policy}' needs actions in a Box, got the action space {space}."
        assert second.startswith("Leave policy out")
        make_action_distribution(space, load_config("default"))
        if ":" not in policy:
            mixed = spaces.Dict(a=space, b=BOX)
            make_action_distribution(mixed, load_config("default", policy=policy))
    for space in (spaces.Box(0, 9, (2,), np.int32), spaces.Text(3)):
        refused(space)


def test_functions_of_users_make_distributions_over_every_box(monkeypatch, tmp_path):
    text = "from agents.distributions.gaussian import ParametricGaussian\n"
    text += (
        "def narrow(space, config): return ParametricGaussian(space, config.initial_log_std - 1)\n"
    )
    text += "def wrong(space, config): return space\n"
    text += "class Wide(ParametricGaussian):\n"
    text += "    def __init__(self, space, config): super().__init__(space)\n"
    text += (
        "    def noise(self, generator, batch_shape): return 1 / generator.normal(batch_shape)\n"
    )
    (tmp_path / "users_policies.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    config = load_config("default", policy="users_policies:narrow", initial_log_std=-0.5)
    assert make_action_distribution(BOX, config).parameters[1].initial == -1.5
    whole = spaces.Dict(choice=spaces.Discrete(2), force=BOX)
    assert isinstance(make_action_distribution(whole, config), ParametricJoint)
    for name, words in [("wrong", "without parameters, noise_size"), ("missing", "no 'missing'")]:
        config = load_config("default", policy=f"users_policies:{name}")
        with pytest.raises(UsageError, match=words):
            make_action_distribution(BOX, config)
    settings = {"policy": "users_policies:narrow", "noise_correlation": 0.5}
    assert isinstance(make_action_distribution(BOX, load_config(**settings)), ParametricGaussian)
    settings["policy"] = "users_policies:Wide"
    with pytest.raises(UnsupportedSpaceError, match="noise_correlation needs Gaussian"):
        make_action_distribution(BOX, load_config(**settings))
    monkeypatch.delitem(sys.modules, "users_policies")


class Broken(ParametricGaussian):
    """Gaussians with one wrong method; `change` is called with each distribution."""

    change = None

    def __init__(self, space, config):
        super().__init__(space)

    def distribution(self, parameters, mask=None):
        distribution = super().distribution(parameters, mask)
        names = ("sample", "mode", "log_prob", "entropy", "statistics")
        own = types.SimpleNamespace(**{name: getattr(distribution, name) for name in names})
        own.kl = lambda other: tf.zeros(2)
        Broken.change(own)
        return own


BROKEN = {
    "sample.noise. has other results for equal noise": lambda one: setattr(
        one, "sample", lambda noise: tf.random.normal(noise.shape)
    ),
    "without mode$": lambda one: delattr(one, "mode"),
    "log_prob of 2 distributions has the shape .2, 3., expected .2": lambda one: setattr(
        one, "log_prob", lambda sample: sample
    ),
    "entropy of 2 distributions has the shape ..,": lambda one: setattr(
        one, "entropy", lambda: tf.constant(1.0)
    ),
    "failed\nValueError: .*'odd'": lambda one: setattr(one, "entropy", lambda: int("odd")),
    # Which eager code converts, and graphs do not.
    "failed\nTypeError: .*float64": lambda one: setattr(
        one, "kl", lambda other: tf.where(tf.constant([True, False]), -1.0, tf.ones(2, tf.float64))
    ),
    "kl of 2 distributions has the shape ..,": lambda one: setattr(
        one, "kl", lambda other: tf.constant(0.0)
    ),
}


@pytest.mark.parametrize("message", BROKEN)
def test_distributions_of_users_are_checked(message, monkeypatch):
    monkeypatch.setattr(Broken, "change", BROKEN[message])
    config = load_config("default", policy=f"{__name__}:Broken", objective="kl")
    with pytest.raises(UsageError, match=message):
        make_action_distribution(spaces.Box(-1, 1, (3,)), config)


def test_every_policy_is_tested_exported_and_in_the_guide():
    for name in POLICIES:
        assert name in {case.policy for case in CASES.values()}, name
        assert name in {kind.settings.get("policy", "gaussian") for kind in KINDS.values()}, name
        assert f"| `{name}` |" in GUIDE.read_text(), name


def test_correlated_noise_needs_gaussian_policies():
    config = load_config("default", noise_correlation=0.5)
    assert isinstance(make_action_distribution(BOX, config), ParametricGaussian)
    with pytest.raises(UnsupportedSpaceError, match="noise_correlation"):
        make_action_distribution(spaces.Dict(a=BOX, b=spaces.Discrete(2)), config)
    with pytest.raises(UnsupportedSpaceError, match="beta"):
        config = load_config("default", noise_correlation=0.5, policy="beta")
        make_action_distribution(BOX, config)


INF = np.inf


@pytest.mark.parametrize(("low", "high", "auto", "always"), [
    (-1, 1, False, True), (-10, 10, False, True), (-0.1, 0.1, False, True), (0, 1, False, True),
    (-1000, 1000, True, True), (0, 300, True, True), (-0.01, 0.01, True, True), (2, 3, True, True),
    (-INF, INF, False, False), (5, INF, False, False), (-3e38, 3e38, False, True),
])  # fmt: skip
def test_which_dimensions_are_scaled(low, high, auto, always):
    box = spaces.Box(np.array([low, -1]), np.array([high, 1]), dtype=np.float64)
    for scale_actions, expected in {
        "auto": [auto, False],
        "always": [always, True],
        "never": [False, False],
    }.items():
        np.testing.assert_array_equal(scaled_dimensions(box, scale_actions), expected)
