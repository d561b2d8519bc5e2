"""Parallel jobs that many users submit to one grid scheduler over clusters with queues of their
own."""
