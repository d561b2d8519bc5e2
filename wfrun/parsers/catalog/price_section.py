"""Catalog keys for the cost of a site's cores: price and electrical power."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from wfrun.engine.model import SiteSpec
from wfrun.parsers.syntax.sections import Section, at_most, in_words, to_number
from wfrun.parsers.syntax.yaml_document import YamlDocument

PRICE_KEYS = ("price_per_core_hour", "watts_per_core")
_PRICE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ([A-Z]{3})", re.ASCII)
_MAX_WATTS = 10_000.0


def with_prices(section: Section, site: SiteSpec) -> SiteSpec:
    """Return the site with price and power of its cores, as its entry states them."""
    unpriced: tuple[float | None, str | None] = None, None
    price, currency = section.take("price_per_core_hour", _to_price, unpriced)
    return msgspec.structs.replace(
        site,
        price_per_core_hour=price,
        currency=currency,
        watts_per_core=section.take("watts_per_core", _to_watts, None),
    )


def check_currencies(document: YamlDocument, sites: Sequence[SiteSpec]) -> None:
    """Raise InvalidError, with the line, if two sites have prices in different currencies."""
    first = next((site for site in sites if site.currency), None)
    for site in sites:
        if first is not None and site.currency not in (None, first.currency):
            message = (
                f"the price of site {site.name} is in {site.currency}, "
                f"the price of site {first.name} in {first.currency}"
            )
            hint = "State all prices in one currency."
            raise document.error(message, "sites", site.name, "price_per_core_hour", hint=hint)


def _to_price(value: Any) -> tuple[float | None, str | None]:
    found = _PRICE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        said = in_words(value)
        raise ValueError(f"it must be a number and a currency, such as '0.05 EUR', not {said}")
    return float(found[1]), found[2]


def _to_watts(value: Any) -> float | None:
    if to_number(value) < 0:
        raise ValueError(f"it must be at least 0, not {value}")
    return at_most(_MAX_WATTS, float(value))
