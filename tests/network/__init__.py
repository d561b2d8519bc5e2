"""Hosts with addresses of their own, and links between them of a chosen rate and latency."""
