"""Launchers: their state, and the decisions to request and to stop them."""
