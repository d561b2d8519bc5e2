"""Workloads of bags of tasks in the simulator: thesis section 5."""
