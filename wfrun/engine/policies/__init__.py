"""Policies of placement and of selection."""
