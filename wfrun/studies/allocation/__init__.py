"""Study of the JGC paper's allocation strategies (sections 5 and 6.1)."""
