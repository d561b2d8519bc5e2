"""Prints the log of a run, for people and for programs."""
