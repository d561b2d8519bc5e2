"""Planned packings of moldable jobs: makespan, weighted sum of completion times, lower bounds of
both, and a comparison of algorithms."""
