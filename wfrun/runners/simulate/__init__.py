"""Simulated runs: the loop and the core of real runs, in virtual time."""
