"""The directory of a run: whose it is, who drives it, where the user's others are."""
