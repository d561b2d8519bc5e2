"""Predictions of queue waits (thesis section 7.3)."""
