"""Checks that requests can be met: tasks and containers at sites, information for policies, names
that users type."""
