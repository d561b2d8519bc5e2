"""Parallel jobs: their sizes, co-allocation, packing, reallocation, and cycle scavenging."""
