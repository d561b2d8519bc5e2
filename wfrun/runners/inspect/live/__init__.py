"""Displays of a run while its engine drives it."""
