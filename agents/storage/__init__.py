"""Storage: the folder of a run, safe against crashes, full disks and damage."""
