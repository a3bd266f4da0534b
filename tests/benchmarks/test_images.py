import pytest

from benchmarks import images


@pytest.mark.parametrize("game", images.GAMES)
@pytest.mark.parametrize("env_backend", ["process", "hybrid", "envpool"])
def test_backends_do_the_same_work(game, env_backend):
    config = images.make_config(game, 8, env_backend)
    assert (config.env_backend, config.num_envs) == (env_backend, 8)
    work = (config.rollout_length, config.epochs, config.minibatch_size, config.network)
    assert work == (128, 4, 256, "nature")
    if env_backend == "envpool":
        assert config.env == f"{game}-v5" and not config.env_wrappers + config.train_wrappers
        assert config.env_kwargs == {"episodic_life": True, "reward_clip": True}


def test_envpool_has_the_same_preprocessing():
    envpool = pytest.importorskip("envpool")
    spec = envpool.make_spec("Pong-v5", episodic_life=True, reward_clip=True).config
    assert (spec.frame_skip, spec.stack_num, spec.noop_max) == (4, 4, 30)
    assert (spec.img_height, spec.img_width, spec.repeat_action_probability) == (84, 84, 0)
    assert spec.gray_scale and spec.use_fire_reset and not spec.full_action_space
    import agents

    assert agents.load_config("pong").env_kwargs["full_action_space"] is False


@pytest.mark.slow
def test_sb3_has_the_same_network_and_settings():
    pytest.importorskip("stable_baselines3")
    from benchmarks.sb3_atari import make_atari_envs, make_atari_ppo

    config = images.make_config("Breakout", 2)
    envs = make_atari_envs("DummyVecEnv", "Breakout", 2)
    ppo = make_atari_ppo(envs, config)
    envs.close()
    num_weights = sum(weight.numel() for weight in ppo.policy.parameters())
    # Three convolutions, a dense layer, four actions and a value.
    assert num_weights == 8_224 + 32_832 + 36_928 + 1_606_144 + 2_052 + 513
    assert (ppo.n_steps, ppo.n_epochs, ppo.batch_size) == (128, 4, 256)
