"""A run as tables and records."""
