"""Parallel jobs in the queues of several sites: their sizes, and moves of those that wait."""
