"""Copies through this machine."""
