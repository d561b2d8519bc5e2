"""The study of thesis chapter 7 and of section 6.2 of the JGC paper: predictions.

A module for each experiment defines a `Part`: cells, rows, claims, figures, a section of the page.
"""
