"""Reuse of tasks that earlier runs did in a new run, with their outputs."""
