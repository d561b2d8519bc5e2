"""Causes of the differences from the paper: the part of the page written by hand."""

DIFFERENCES = """
## What differs, and why
"""
