"""Grid Engine and its descendants."""
