"""Commands that start, continue, control and end runs."""
