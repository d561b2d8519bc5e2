"""The grids of the JGC paper."""
