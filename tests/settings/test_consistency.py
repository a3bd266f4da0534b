import pytest

from agents.settings.config_file import load_config


@pytest.mark.parametrize(
    "size, nearest", [(60, 64), (100, 128), (4096, 2048), (3, 2), (2000, 2048)]
)
def test_minibatches_divide_a_rollout(size, nearest, refused):
    first, second = refused("default", minibatch_size=size)
    assert first == (
        f"minibatch_size: {size} does not divide the 2048 steps of a rollout (8 num_envs x 256 rollout_length)"
    )
    assert second == f"the nearest size that does is {nearest}"
    assert load_config("default", minibatch_size=nearest).minibatch_size == nearest


def test_sequences_divide_rollouts_and_minibatches(refused):
    assert load_config("default", recurrent="gru").sequence_length == 0
    assert load_config("default", recurrent="gru", sequence_length=32).sequence_length == 32
    lines = refused("default", recurrent="gru", sequence_length=48)
    assert "sequences of 48 steps" in lines[0]
    assert lines[1] == "the longest that does is 64; 0 selects it"


@pytest.mark.parametrize("settings", [{"kl_stop": 0.1}, {"learning_rate_schedule": "kl"}])
def test_what_is_decided_on_minibatches_needs_their_reductions(refused, settings):
    assert load_config("default", reduce_every="epoch").reduce_every == "epoch"
    lines = refused("default", reduce_every="epoch", **settings)
    assert lines[0].startswith("reduce_every:")
    assert "expected reduce_every minibatch" in lines[1]


def test_a_single_program_does_not_overlap(refused):
    assert load_config("default", overlap=True, env_backend="inline").overlap
    lines = refused("default", overlap=True, env_backend="tf")
    assert lines[0].startswith("overlap: with env_backend 'tf'")
    assert lines[1] == "expected another env_backend, or overlap false"


@pytest.mark.parametrize("env_backend", ["hybrid", "inline", "envpool", "tf"])
def test_environments_that_make_each_step_together(env_backend, refused):
    assert load_config("default", wait_for=0.5).wait_for == 0.5
    assert load_config("default", env_backend=env_backend).wait_for == 1
    assert refused("default", env_backend=env_backend, wait_for=0.5) == [
        f"wait_for: environments with env_backend '{env_backend}' make each step together, got 0.5",
        "expected env_backend process, or wait_for 1",
    ]
    assert "above 0 and at most 1, got 0" in refused("default", wait_for=0)[0]


def test_a_critic_learning_rate_needs_separate_torsos(refused):
    (line,) = refused("pendulum", critic_learning_rate=1e-3, shared_torso=True)
    assert line.startswith("critic_learning_rate:")
    assert "shared_torso" in line


@pytest.mark.parametrize(
    "name, suggestion",
    [("pppo", "; did you mean 'ppo'?"), ("PPO", "; did you mean 'ppo'?"), ("sac", "")],
)
def test_unknown_algorithms(name, suggestion, refused):
    assert refused(algorithm=name) == [
        f"algorithm: unknown algorithm '{name}'{suggestion}",
        "expected ppo, or my_module:MyAlgorithm",
    ]


def test_unknown_networks(refused):
    assert refused(network="natur") == [
        "network: unknown network 'natur'; did you mean 'nature'?",
        "expected feed_forward, nature, impala, or my_module:my_function",
    ]


@pytest.mark.parametrize(
    "setting, known", [("algorithm", "ppo"), ("network", "impala"), ("policy", "beta")]
)
def test_some_settings_may_be_entry_points(setting, known):
    for name in (known, "my_module:Name", "my_package.my_module:name"):
        assert getattr(load_config(**{setting: name}), setting) == name


@pytest.mark.parametrize("backend", ["tf", "envpool"])
def test_restarts_need_environments_of_gymnasium(backend, refused):
    lines = refused(env_backend=backend, env_restarts={"limit": 1})
    assert lines[0] == f"env_restarts: environments with env_backend '{backend}' can't be restarted"
    assert load_config(env_backend=backend, env_restarts={"limit": 0}).env_restarts.limit == 0


@pytest.mark.parametrize("backend", ["tf", "envpool"])
def test_reset_options_need_environments_of_gymnasium(backend, refused):
    lines = refused(env_backend=backend, reset_options={"level": 1})
    assert lines[0] == f"reset_options: environments with env_backend '{backend}' take none"
