"""Experiments of many simulated runs: their description, execution, results, metrics and tables."""
