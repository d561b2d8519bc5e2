"""Reuse: tasks of a new run that earlier runs did, and the outputs of these tasks."""
