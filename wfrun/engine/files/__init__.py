"""Files of a run: where they are, copies to sites, and how long copies take."""
