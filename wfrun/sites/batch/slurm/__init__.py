"""Slurm: what it is asked, what it prints, and what it offers."""
