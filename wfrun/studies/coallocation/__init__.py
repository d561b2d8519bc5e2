"""Co-allocation of parallel jobs over the clusters of the DAS-3 (thesis chapter 2)."""
