"""Copies of files between sites."""
