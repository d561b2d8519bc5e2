"""Statistics of runs as tables and CSV."""
