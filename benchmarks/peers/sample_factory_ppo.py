"""Synchronous PPO of Sample Factory in one process, with the settings of ours.

    python -m benchmarks.peers.sample_factory_ppo --env=ENV OPTION ...

trains on an environment of Gymnasium, with Sample Factory's options.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.contestant import Measure
from benchmarks.peers.script import Script
from benchmarks.ppo_settings import PPOSettings

PROGRESS = "end of an iteration"


def training(env: str, num_envs: int, rollout_length: int) -> Iterator[Measure]:
    """Measures iterations in serial mode, where nothing waits for another process."""
    settings = PPOSettings()
    steps = num_envs * rollout_length
    minibatches = steps // settings.minibatch_size
    arguments = [
        *("-m", __name__),
        f"--env={env}",
        "--experiment=benchmark",
        "--device=cpu",
        "--serial_mode=True",
        "--async_rl=False",
        "--num_workers=1",
        f"--num_envs_per_worker={num_envs}",
        "--worker_num_splits=1",
        f"--rollout={rollout_length}",
        f"--batch_size={settings.minibatch_size}",
        f"--num_batches_per_epoch={minibatches}",
        f"--num_epochs={settings.epochs}",
        "--use_rnn=False",
        *("--encoder_mlp_layers", *map(str, settings.layers)),
        f"--nonlinearity={settings.activation}",
        "--actor_critic_share_weights=False",
        "--adaptive_stddev=False",
        f"--learning_rate={settings.learning_rate}",
        "--lr_schedule=constant",
        f"--adam_eps={settings.adam_epsilon}",
        f"--gamma={settings.discount}",
        f"--gae_lambda={settings.gae_lambda}",
        f"--ppo_clip_ratio={settings.clip_ratio}",
        "--ppo_clip_value=1000000000",
        # The squared error counts there, and half of it in ours.
        f"--value_loss_coeff={settings.value_coef / 2}",
        f"--exploration_loss_coeff={settings.entropy_coef}",
        f"--max_grad_norm={settings.max_gradient_norm}",
        "--normalize_input=False",
        "--normalize_returns=False",
        "--value_bootstrap=True",
        "--decorrelate_experience_max_seconds=0",
        "--train_for_env_steps=1000000000000",
        "--train_for_seconds=1000000000",
        "--save_every_sec=1000000000",
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Script(arguments, PROGRESS, steps, Path(folder))) as script,
    ):
        script.warm_up()
        yield script.measure


def make_env(env: str, *_: object, **__: object) -> object:
    """Makes an environment; a function that can be pickled, as Sample Factory needs it."""
    import gymnasium

    return gymnasium.make(env)


def main() -> None:
    """Trains with the options of the command line."""
    from sample_factory.algo.runners.runner import AlgoObserver
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env
    from sample_factory.train import make_runner

    class Progress(AlgoObserver):
        """Prints a line after each iteration."""

        def on_training_step(self, runner: object, training_iteration_since_resume: int) -> None:
            """Prints the line."""
            print(PROGRESS)

    parser, options = parse_sf_args()
    register_env(options.env, make_env)
    _, runner = make_runner(parse_full_cfg(parser))
    runner.register_observer(Progress())
    runner.init()
    runner.run()


if __name__ == "__main__":
    main()
