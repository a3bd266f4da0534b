"""A run's folder, safe against crashes, full disks and damage, and readers of many runs.

run_directory       folder of a run
checkpoint          all variables of a training, in one file
metrics_file        metrics.jsonl
metrics             scalars and histograms of a training
curves              plots of many runs
comparison          comparison of runs by statistics
"""
