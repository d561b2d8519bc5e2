"""Grid Engine and its descendants: what it is asked, what it prints, and what it offers."""
