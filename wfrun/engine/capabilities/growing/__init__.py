"""Malleable jobs on real sites: processors that they are offered, take and give back."""
