"""Requests of jobs that may be co-allocated."""

from __future__ import annotations

from typing import NamedTuple

Placement = tuple[tuple[int, int], ...]
"""The components of a placed job, in their order: (site, number of processors) of each. A site may
have several components, unless the request is flexible."""


class PlacementRequest(NamedTuple):
    """The processors that a job requests, and how they may be divided into components (thesis
    section 2.1).

    *Fixed*: splits with the site of each component. *Non-fixed*: splits with sizes alone.
    *Flexible*: no splits; the policy divides the job within the bounds.
    """

    size: int
    """Number of processors of the whole job."""
    splits: tuple[tuple[tuple[int, int | None], ...], ...] = ()
    """Ways to divide the job, in the order of preference: (processors, site) of each component;
    site None: any site. Empty: the request is flexible."""
    most: int | None = None
    """Maximum number of components of a flexible request; None: the number of sites."""
    least: int = 1
    """Minimum number of processors of each component of a flexible request, a multiple of
    ``unit`` and at most ``size``."""
    unit: int = 1
    """Number of processors on each node. The sizes of the components of a flexible request are
    multiples of ``unit``, and so is ``size``."""
    sites: int = -1
    """Mask of the sites that may run components: bit n for site n; -1: all."""
    widths: tuple[int, ...] = ()
    """By site: maximum number of processors of one component, as the number and the width of its
    nodes allow; empty: no limits."""
