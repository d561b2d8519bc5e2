"""Measurements of earlier runs: run times, link speeds, overheads of sites."""
