"""The log file of a run, and the serialized state of a run."""
