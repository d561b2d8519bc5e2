"""Predictions in grid schedulers (thesis section 7.4)."""
