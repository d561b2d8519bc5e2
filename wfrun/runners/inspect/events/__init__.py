"""The log of a run for people and programs."""
