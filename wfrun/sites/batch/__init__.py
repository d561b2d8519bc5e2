"""Batch systems, one folder each: command lines for a head node and parsers of their output."""
