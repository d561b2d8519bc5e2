"""Site catalogs: readers, and the editing of a catalog's document."""
