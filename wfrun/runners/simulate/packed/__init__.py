"""Planned packings of moldable jobs: both criteria, lower bounds, and a comparison of
algorithms."""
