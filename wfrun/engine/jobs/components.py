"""The division of a parallel job over several sites, as documents state it."""

from __future__ import annotations

import msgspec


class Component(msgspec.Struct, frozen=True):
    """A part of a job that runs at one site."""

    size: int
    """Number of processors."""
    site: str | None = None
    """Name of the site of the component; None: any site."""


class Components(msgspec.Struct, frozen=True):
    """The components of a job (thesis section 2.1): *fixed* with the site of each, *non-fixed* with
    sizes alone, or *flexible*, without splits, which a policy divides within bounds."""

    size: int
    """Number of processors of the whole job."""
    splits: tuple[tuple[Component, ...], ...] = ()
    """Ways to divide the job, in the order of preference, each of ``size`` processors in all. In a
    split either all components have a site, or none. Empty: flexible."""
    most: int | None = None
    """Maximum number of components of a flexible job; None: the number of sites."""
    least: int = 1
    """Minimum number of processors of each component of a flexible job: a multiple of ``ppn``, and
    at most ``size``."""
    ppn: int | None = None
    """Processors on each node; None: each component is on one node."""
