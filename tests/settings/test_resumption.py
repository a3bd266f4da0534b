import pytest

from agents.errors import UsageError
from agents.settings.config import Config
from agents.settings.config_file import load_config
from agents.settings.resumption import CHANGEABLE, check_resumption

OTHER = {
    "steps": 7,
    "device": "cpu",
    "eval_interval": 7,
    "eval_episodes": 7,
    "env_restarts": {"limit": 7},
    "log_interval": 7,
    "histogram_interval": 0,
    "info_keys": ["speed"],
    "num_processes": 1,
    "on_nonfinite": "skip",
    "reset_options": {"level": 7},
    "start_timeout": 7,
    "step_timeout": 7,
    "threads": 2,
    "video_interval": 7,
    "wait_for": 0.5,
}


def test_the_list_holds_settings():
    assert set(OTHER) == CHANGEABLE
    assert set(Config.model_fields) > CHANGEABLE


@pytest.mark.parametrize("name", sorted(CHANGEABLE))
def test_settings_that_do_not_change_what_is_learned_can_differ(name):
    changed = load_config("default", **{name: OTHER[name]})
    assert changed != load_config("default")
    check_resumption(load_config("default"), changed)


def test_backends_with_equal_episodes_can_differ():
    process, hybrid, inline, graph = (
        load_config("default", env_backend=name) for name in ("process", "hybrid", "inline", "tf")
    )
    check_resumption(process, inline)
    check_resumption(inline, hybrid)
    with pytest.raises(UsageError, match="env_backend"):
        check_resumption(process, graph)


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": 1},
        {"learning_rate": 1e-3},
        {"checkpoint_interval": 7},
        {"env_kwargs": {"g": 1}},
        {"custom_settings": {"size_coef": 1}},
    ],
)
def test_other_settings_are_refused_by_name(settings):
    [(name, value)] = settings.items()
    with pytest.raises(UsageError, match=f"^{name}: the run has .*, got .*") as caught:
        check_resumption(load_config("default"), load_config("default", **settings))
    assert str(value) in str(caught.value) and "start a new run" in str(caught.value)


def test_several_settings_are_named_in_few_lines():
    given = load_config("default", seed=1, discount=0.5, layers=(8,), epochs=1, env="A" * 500)
    with pytest.raises(UsageError) as caught:
        check_resumption(load_config("default"), given)
    assert len(str(caught.value).splitlines()) <= 3 and len(str(caught.value)) < 400
