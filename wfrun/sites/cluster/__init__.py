"""Clusters with a batch system."""
