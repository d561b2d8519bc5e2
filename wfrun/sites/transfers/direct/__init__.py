"""Copies that a site itself sends to another site: one file for each client program."""
