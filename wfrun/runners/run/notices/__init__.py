"""Notifications of a run, and its metrics for Prometheus."""
