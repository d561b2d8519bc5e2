"""Connections to a host, a file a transport."""
