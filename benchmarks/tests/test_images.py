import pytest

from benchmarks import images


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
