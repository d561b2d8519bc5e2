"""Planned packings of moldable jobs: their values by both criteria (makespan, weighted sum of
completion times), lower bounds, and a comparison of algorithms."""
