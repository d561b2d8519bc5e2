"""A model check of the core: random worlds, each from one integer seed, under an auditor that reads
the log and the actions alone."""
