"""The failures of a run, in groups, with advice."""
