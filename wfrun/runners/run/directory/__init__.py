"""The run directory: its owner, the engine that drives the run, and the index of the user's
runs."""
