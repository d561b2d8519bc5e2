"""Adding sites to a catalog, checking them, and showing how they are."""
