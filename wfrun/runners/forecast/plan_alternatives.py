"""Other policies and throttles for a planned run, simulated within a time limit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import astuple, replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.fitting.information import R, U
from wfrun.engine.model import Workflow
from wfrun.engine.policies.placement import PLACEMENT, placement_class, placement_options
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.runners.simulate.plan import OverdueError, makespan_s
from wfrun.runners.simulate.rest import Reused
from wfrun.runners.simulate.simulation import Platform

Throttle = int | Literal["auto", "none"] | None


class Alternative(msgspec.Struct, frozen=True):
    """A policy and a throttle, with the makespan of the simulated run."""

    policy: str
    throttle: Throttle
    """Throttle of the run; None: the default throttle of the policy."""
    makespan_s: float


class Comparison(msgspec.Struct, frozen=True):
    """The alternatives that were simulated, the fastest first."""

    alternatives: tuple[Alternative, ...]
    candidates: int
    """Number of alternatives that would be compared without the time limit."""
    limit_s: float
    """Maximum time of all simulations together, in seconds."""
    broken: dict[str, str] = {}
    """Error message of each policy that raised a `PolicyError`. The alternatives of these policies
    are left out."""


def compare(
    workflows: Sequence[Workflow],
    platform: Platform,
    settings: Settings,
    limit_s: float,
    reused: Reused | None,
) -> Comparison:
    """Simulate the run with other policies and throttles, for at most ``limit_s`` seconds. An
    alternative is left out if it does not suit the tasks or sites, if it leaves tasks undone, or if
    its policy raises an error."""
    deadline_s = time.monotonic() + limit_s
    tried = list(candidates(settings, platform))
    found = []
    broken: dict[str, str] = {}
    for candidate in tried:
        if candidate.policy in broken:
            continue
        try:
            took_s = makespan_s(workflows, platform, candidate, deadline_s, reused)
        except OverdueError:
            break
        except InvalidError:
            continue  # the policy does not suit these tasks or sites
        except PolicyError as error:
            broken[candidate.policy] = str(error).split("\n")[0]
            continue
        if took_s is not None:
            found.append(Alternative(candidate.policy, candidate.throttle, took_s))
    found.sort(key=lambda each: each.makespan_s)
    return Comparison(tuple(found), len(tried), limit_s, broken)


def candidates(settings: Settings, platform: Platform) -> Iterator[Settings]:
    """Yield the settings of the alternatives: all policies with the chosen throttle, then all
    policies with each other throttle. The chosen policy comes first, but is no alternative with the
    chosen throttle. Then follow the policies that use most information, because the time may
    suffice for only a few alternatives."""
    slots = sum(site.slots for site in platform.catalog.sites)
    throttles: tuple[Throttle, ...] = (None, "auto", slots)
    has_others = any(platform.background.values())
    names = sorted(PLACEMENT, key=lambda name: -_used_information(name, has_others=has_others))
    for throttle in dict.fromkeys((settings.throttle, *throttles)):
        for name in dict.fromkeys((settings.policy, *names)):
            if (name, throttle) == (settings.policy, settings.throttle):
                continue
            options = settings.policy_options if name == settings.policy else {}
            try:
                placement_options(placement_class(name), options)
            except InvalidError:
                continue
            yield replace(settings, policy=name, throttle=throttle, policy_options=options)


def _used_information(name: str, *, has_others: bool) -> int:
    """Number of kinds of information that a policy uses. 0 for a policy that predicts run times of
    other users' jobs if there are no such jobs, because it then decides like the policy that knows
    these run times."""
    information = PLACEMENT[name].information
    if information.background_runtime is R and not has_others:
        return 0
    return sum(each is not U for each in astuple(information))
