"""Exports runs to formats that other programs read."""
