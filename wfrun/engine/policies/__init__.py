"""Policies: placement, selection, prediction."""
