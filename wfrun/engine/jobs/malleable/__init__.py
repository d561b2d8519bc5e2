"""Jobs that grow and shrink while they run, each at one site (thesis chapter 3)."""
