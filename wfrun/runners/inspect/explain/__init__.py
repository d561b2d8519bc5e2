"""Explains why a task waits, why it was placed at its site, and why a site is idle."""
