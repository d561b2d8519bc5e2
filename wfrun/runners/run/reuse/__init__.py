"""Reuse: the tasks of a new run that an earlier one did, and their outputs."""
