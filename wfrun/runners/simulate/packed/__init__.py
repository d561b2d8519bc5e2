"""Packings of moldable jobs, planned: criteria, bounds, algorithms side by side."""
