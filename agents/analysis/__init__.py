"""What runs have learned: curves, comparisons."""
