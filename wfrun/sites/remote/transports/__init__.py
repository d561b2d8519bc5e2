"""Connections to a host, one file for each transport."""
