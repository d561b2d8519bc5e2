"""A cluster whose tasks are run by launchers inside batch jobs."""
