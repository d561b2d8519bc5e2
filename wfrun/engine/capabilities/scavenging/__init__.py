"""Scavenging: the owners of a run share the idle processors of sites, and give them back when other
users' jobs need them."""
