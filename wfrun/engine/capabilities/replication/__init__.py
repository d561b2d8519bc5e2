"""Replication: further attempts of running tasks."""
