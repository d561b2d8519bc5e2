"""Runs in formats that other programs read."""
