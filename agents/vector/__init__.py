"""Batches of environments, as Gymnasium vector environments.

batch_env      environments stepped in parallel
process_batch  the same in worker processes, which are started for them
batch_inputs   checks of actions, seeds and reset masks
batch_infos    infos of environments joined by key
exchange       requests to all hosts at once, and warnings about slow ones
paced_rollout  a rollout in which hosts need not be at the same step
restarts       restarts of environments that fail
autoreset      same-step autoreset for any vector environment
envpool_env    EnvPool's environments
packing        steps of any vector environment as one block of bytes
"""
