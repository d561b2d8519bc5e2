"""Simulated runs as tasks of a bag, which runs at the sites of a catalog."""
