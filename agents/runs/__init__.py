"""A run's folder, safe against crashes, full disks and damage, and readers of many runs.

run_directory       folder of a run
checkpoint          all variables of a training, in one file
checkpoint_files    these files: written whole, verified when they are read
metrics_file        metrics.jsonl
metrics             scalars and histograms of a training
curves              plots of many runs
comparison          comparison of runs by statistics

A run is data: nothing in its folder is executed. Readers refuse links, pipes and pickles
(`regular_files`, `checkpoint_files`, `settings.config_file`), and modules that lie in it
(`settings.entry_points`).
"""
