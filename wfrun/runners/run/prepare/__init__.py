"""Prepares a run that can start, from documents, catalogs and options."""
