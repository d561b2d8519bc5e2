"""Batch systems: how jobs are submitted to Slurm, Grid Engine and PBS, and what they answer."""
