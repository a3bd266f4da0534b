import pytest

from agents.errors import UsageError
from agents.settings.config_file import load_config
from agents.settings.resumption import CHANGEABLE, check_resumption

OTHER = {
    "device": "cpu", "env_restarts": {"limit": 7}, "histogram_interval": 0, "info_keys": ["speed"],
    "on_nonfinite": "skip", "replay_checkpoints": False, "reset_options": {"level": 7}, "steps": 10**7,
    "wait_for": 0.5,
}  # fmt: skip


def test_settings_that_do_not_change_what_is_learned_can_differ():
    others = {name: OTHER.get(name, 7) for name in CHANGEABLE}
    started, changed = load_config("sac"), load_config("sac", **others)
    assert all(getattr(changed, name) != getattr(started, name) for name in CHANGEABLE)
    check_resumption(started, changed)


def test_backends_with_equal_episodes_can_differ():
    process, hybrid, inline, graph = (
        load_config("default", env_backend=name) for name in ("process", "hybrid", "inline", "tf")
    )
    check_resumption(process, inline)
    check_resumption(inline, hybrid)
    with pytest.raises(UsageError, match="env_backend"):
        check_resumption(process, graph)


@pytest.mark.parametrize(
    "settings", [{"seed": 1}, {"checkpoint_interval": 7}, {"env_kwargs": {"g": 1}}]
)
def test_other_settings_are_refused_by_name(settings):
    [(name, value)] = settings.items()
    with pytest.raises(UsageError, match=f"^{name}: the run has .*, got .*") as caught:
        check_resumption(load_config("default"), load_config("default", **settings))
    assert str(value) in str(caught.value) and "start a new run" in str(caught.value)
    assert "from these weights with --initial-weights" in str(caught.value)


@pytest.mark.parametrize("settings", [{"layers": (9,)}, {"initial_weights": "run"}])
def test_other_networks_need_new_weights(settings):
    with pytest.raises(UsageError, match="start a new run, which has new weights"):
        check_resumption(load_config("default"), load_config("default", seed=1, **settings))


def test_several_settings_are_named_in_few_lines():
    given = load_config("default", seed=1, discount=0.5, layers=(8,), epochs=1, env="A" * 500)
    with pytest.raises(UsageError) as caught:
        check_resumption(load_config("default"), given)
    assert len(str(caught.value).splitlines()) <= 3 and len(str(caught.value)) < 400
