"""Experiments of many simulated runs: what is simulated and varied, results, metrics, tables,
picture."""
