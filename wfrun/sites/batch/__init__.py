"""Batch systems: what to run at a head node, and what its answers mean. A folder for each."""
