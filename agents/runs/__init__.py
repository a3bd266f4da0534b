"""A run's folder, safe against crashes, full disks and damage, and readers of many runs.

run_directory        folder of a run
run_lock             lock of that folder: one process trains in it
checkpoint           all variables of a training, in one file
checkpoint_files     these files: written whole, verified when they are read
replay_files         files of a replay, beside the checkpoints
metrics              scalars and histograms of a training
metrics_file         metrics.jsonl
event_files          TensorBoard's event files
append_file          files that grow by whole records, under both
wandb_tracker        metrics for Weights & Biases
training_statistics  episodes and times between two log points
curves               plots of many runs
comparison           comparison of runs by statistics
preset_table         presets with the scores that training is expected to reach

A run is data: nothing in its folder is executed. Readers refuse links, pipes and pickles
(`regular_files`, `checkpoint_files`, `settings.config_file`), and modules that lie in it
(`settings.entry_points`).
"""
