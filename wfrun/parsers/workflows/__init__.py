"""Workflow documents: readers, writers, and what a checked workflow is made of."""
