"""The command ``predict``, with a file for each of its modes."""
