"""Metrics of schedules. Each metric is defined here once, with its source.

``jobs``: metrics of jobs in queues; ``grid``: the 24 metrics of the study of hierarchical grids;
``workflows``: metrics of workflows and their tasks; ``log``: computes metrics from a log;
``samples``: means, percentiles and confidence intervals of repeated measurements.
``docs/metrics.md`` lists all metrics in one table.
"""
