"""From documents, catalogs and options to a run that can start."""
