"""Explanations of waiting tasks and of idle sites, and estimates of the time left of a run."""
