"""Capabilities that observe run times and waits, and predict them."""
