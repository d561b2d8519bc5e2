"""Policies by kind: placement, selection, prediction."""
