"""The command ``predict``, a file a mode."""
