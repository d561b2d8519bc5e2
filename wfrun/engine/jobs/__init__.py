"""Parallel jobs: their sizes, and moves between the queues of clusters."""
