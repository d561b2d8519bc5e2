"""Parallel jobs in the queues of several sites: the choice of their sizes, and the reallocation of
waiting jobs."""
