"""Copies by GridFTP servers."""
