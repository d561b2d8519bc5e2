"""Servers of the tests whose faults a test chooses."""
