"""Causes of the claims that do not hold here: the part of the page written by hand."""

DIFFERENCES = ""
