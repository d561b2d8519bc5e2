"""Predictions of waits in queues."""
