"""Bags in JSDL."""
