"""Simulation of parallel jobs that many users submit to one grid scheduler. Each cluster of the
grid has a queue."""
