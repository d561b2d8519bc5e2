"""Grids of simulated runs: what is varied, results, metrics, tables and plots."""
