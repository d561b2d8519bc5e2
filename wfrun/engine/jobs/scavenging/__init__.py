"""Cycle scavenging: how owners share the processors that nobody else wants (thesis chapter 4)."""
