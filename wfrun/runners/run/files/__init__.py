"""Files of a run on the submit host and at its sites: location, naming, removal."""
