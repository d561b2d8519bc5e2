"""Thesis chapter 3: jobs that grow and shrink on the DAS-3."""
