"""The soak test: random runs under random faults over the testbed, each audited afterwards."""
