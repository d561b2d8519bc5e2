"""Launchers: what is known of them, how many there are, and what is withdrawn for them."""
