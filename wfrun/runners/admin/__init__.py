"""Administration of sites: adding them to a catalog, checking them, showing their state."""
