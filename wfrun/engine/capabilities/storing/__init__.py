"""Capabilities of files: removal, limits of storage, late copies."""
