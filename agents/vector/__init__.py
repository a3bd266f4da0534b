"""Batches of environments, as Gymnasium vector environments.

batch_env      environments stepped in parallel
process_batch  the same in worker processes, which are started for them
batch_hosts    what runs them, and whether they fit together
batch_inputs   checks of actions, seeds and reset masks
exchange       requests to all hosts, with one deadline
paced_rollout  a rollout in which hosts need not be at the same step
watchdog       warnings of environments that keep the others waiting
restarts       restarts of environments that fail
"""
