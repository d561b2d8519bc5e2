"""Tasks of a run: eligible, attempted, tried again, done again, reused; bags of tasks."""
