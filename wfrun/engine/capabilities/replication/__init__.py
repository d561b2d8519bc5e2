"""Replication: which running tasks get further attempts, and where."""
