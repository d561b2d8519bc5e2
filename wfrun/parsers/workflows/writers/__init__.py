"""Writers of workflow documents."""
