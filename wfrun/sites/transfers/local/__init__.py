"""Copies within this machine or one file system."""
