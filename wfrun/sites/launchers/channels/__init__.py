"""Channels by which launchers reach the engine."""
