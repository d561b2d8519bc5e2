"""What earlier runs have measured: run times, links, overheads of sites."""
