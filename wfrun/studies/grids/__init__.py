"""Grids that studies simulate."""
