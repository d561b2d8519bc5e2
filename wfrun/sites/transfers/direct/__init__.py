"""Copies that one site sends to another itself, a method a client."""
