"""Files of a run on the submit host and at its sites: where they are found, put and removed."""
