"""Thesis, chapter 4: owners who scavenge idle nodes."""
