"""Metrics of schedules: each is defined here once, with its source.

``jobs``: of jobs in queues; ``grid``: the 24 metrics of the study of hierarchical grids;
``workflows``: of workflows and their tasks; ``log``: all metrics from a log; ``samples``:
means, percentiles and confidence intervals of repeated measurements. ``docs/metrics.md`` has them
in one table.
"""
