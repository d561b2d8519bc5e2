"""The log of a run in its file, and the state of the run as bytes."""
