"""Hosts without a batch system, reached over SSH."""
