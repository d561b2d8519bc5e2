"""A synthetic patch of sky: a spiral galaxy among stars, as source tables for mMakeImg.

Positions are pixels from the centre of the field. Fluxes are counts / ``COUNTS``, at the peak of a
Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

BANDS = ("red", "green", "blue")

CENTRE_RA_DEG = 202.47
CENTRE_DEC_DEG = 47.2
PIXEL_DEG = 0.0005

COUNTS = 40.0
FAINTEST = 3.0
"""Minimum counts of a source. mMakeImg raises fainter ones to this, so they are left out."""

COLOUR = {
    "disk": (1.0, 0.85, 0.75),
    "bulge": (1.15, 0.95, 0.65),
    "core": (1.1, 1.0, 0.8),
    "arms": (0.6, 0.8, 1.35),
    "knots": (1.5, 0.55, 0.95),
}
"""Brightness of each component of the galaxy in the three bands."""


@dataclass(frozen=True, slots=True)
class Source:
    x_px: float
    y_px: float
    flux: float
    colour: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Component:
    """Sources of one size; ``width_px`` is the width of their Gaussians."""

    name: str
    width_px: float
    sources: tuple[Source, ...]


def position_deg(x_px: float, y_px: float) -> tuple[float, float]:
    """Right ascension and declination, approximated for a field of one degree."""
    dec = CENTRE_DEC_DEG + y_px * PIXEL_DEG
    return CENTRE_RA_DEG - x_px * PIXEL_DEG / math.cos(math.radians(dec)), dec


def make_sky(width_px: int, height_px: int, rng: Random) -> tuple[Component, ...]:
    """The galaxy in the middle of the field, as large as fits, and stars all over."""
    scale = min(width_px, height_px) / 640
    arms = tuple(_arms(scale, rng))
    knots = tuple(
        Source(s.x_px, s.y_px, 7 * rng.paretovariate(1.5), COLOUR["knots"])
        for s in arms
        if rng.random() < 0.22
    )
    return (
        Component(
            "disk", 24 * scale, tuple(_glow(900, 260 * scale, 70 * scale, 2.6, COLOUR["disk"]))
        ),
        Component(
            "bulge", 14 * scale, tuple(_glow(200, 60 * scale, 15 * scale, 18, COLOUR["bulge"]))
        ),
        Component("core", 7 * scale, (Source(0, 0, 160, COLOUR["core"]),)),
        Component("arms", 9 * scale, arms),
        Component("knots", 1.8 * scale, knots),
        Component("stars", 1.5, tuple(_stars(width_px, height_px, rng))),
    )


def _glow(
    count: int, radius_px: float, decay_px: float, flux: float, colour: tuple[float, float, float]
) -> Iterator[Source]:
    """An ellipse that fades exponentially, evenly covered like the seeds of a sunflower.

    It is not one wide source because mMakeImg leaves out those whose centre is off the image.
    """
    for i in range(count):
        radius, angle = radius_px * math.sqrt((i + 0.5) / count), i * math.pi * (3 - math.sqrt(5))
        x, y = radius * math.cos(angle), radius * math.sin(angle)
        yield Source(x, 0.8 * y, flux * math.exp(-radius / decay_px), colour)


def _arms(scale: float, rng: Random) -> Iterator[Source]:
    """Two logarithmic spirals seen at an angle, ragged at the edges."""
    per_arm = 420
    for arm in range(2):
        for i in range(per_arm):
            turn = i / per_arm * 8.6
            radius = 26 * math.exp(0.27 * turn)
            spread = 0.075 * radius
            angle = turn + arm * math.pi
            x = radius * math.cos(angle) + rng.gauss(0, spread)
            y = radius * math.sin(angle) + rng.gauss(0, spread)
            flux = 4.2 * math.exp(-radius / 190) * rng.uniform(0.4, 1.6)
            yield Source(x * scale, 0.8 * y * scale, flux, COLOUR["arms"])


def _stars(width_px: int, height_px: int, rng: Random) -> Iterator[Source]:
    for _ in range(round(width_px * height_px / 1400)):
        warmth = rng.uniform(-0.45, 0.45)
        yield Source(
            rng.uniform(-0.55, 0.55) * width_px,
            rng.uniform(-0.55, 0.55) * height_px,
            min(6 * rng.paretovariate(0.95), 900),
            (1 + warmth, 1, 1 - warmth),
        )


def write_tables(sky: tuple[Component, ...], directory: Path, band: str) -> list[str]:
    """Write one IPAC table a component, and return mMakeImg's arguments that name them."""
    arguments: list[str] = []
    index = BANDS.index(band)
    for component in sky:
        path = directory / f"{component.name}_{band}.tbl"
        with path.open("w", encoding="ascii") as file:
            file.write("|     ra     |    dec     |    flux    |\n")
            file.write("|   double   |   double   |   double   |\n")
            for source in component.sources:
                ra, dec = position_deg(source.x_px, source.y_px)
                flux = source.flux * source.colour[index] * COUNTS
                if flux > FAINTEST:
                    file.write(f" {ra:12.7f} {dec:12.7f} {flux:12.3f} \n")
        arguments += ["-t", str(path), "flux", f"{component.width_px:.3f}", "EQUJ", "2000"]
        arguments += ["1", "flux", "gaussian"]
    return arguments
