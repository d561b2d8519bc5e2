"""Launchers: their state, how many are requested, and what is withdrawn for them."""
