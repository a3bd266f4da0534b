"""Batches of environments, as Gymnasium vector environments.

batch_env     environments stepped in parallel
batch_inputs  checks of actions, seeds and reset masks
autoreset     same-step autoreset for any vector environment
envpool_env   EnvPool's environments
packing       steps of any vector environment as one block of bytes
"""
