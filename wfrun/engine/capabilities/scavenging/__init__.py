"""Scavenging: owners share the idle processors of the sites, and give them back to others."""
