"""Placement policies by name.

Third parties add theirs through the entry point group ``wfrun.placement``. The runners, which may
read installed packages, fill the registry; the core only looks names up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.fitting.information import Observed, observed_for
from wfrun.engine.fitting.names import look_up
from wfrun.engine.policies.placement.all_clusters import AllClusters
from wfrun.engine.policies.placement.allocation import STRATEGIES
from wfrun.engine.policies.placement.cluster_min import ClusterMin
from wfrun.engine.policies.placement.coarsening import Coarsening
from wfrun.engine.policies.placement.ect import Ect, EctP
from wfrun.engine.policies.placement.file_aware import FileAware, FileAwareR
from wfrun.engine.policies.placement.fpf import Fpf
from wfrun.engine.policies.placement.fplt import Dfplt, Fplt
from wfrun.engine.policies.placement.heft import Heft, HeftP
from wfrun.engine.policies.placement.max_min import MaxMin
from wfrun.engine.policies.placement.round_robin import RoundRobin
from wfrun.engine.policies.placement.rr import Rr, Wqr
from wfrun.engine.policies.placement.single_cluster import SingleCluster
from wfrun.engine.policies.placement.stfr import Stfr
from wfrun.engine.protocols import Placement

WORKFLOW_POLICIES: tuple[type[Placement], ...] = (
    RoundRobin,
    SingleCluster,
    AllClusters,
    FileAware,
    Coarsening,
    ClusterMin,
    Heft,
    HeftP,
)
"""Policies for workflows in the order of thesis Table 6.1: by increasing use of information."""

BAG_POLICIES: tuple[type[Placement], ...] = (
    Ect,
    Fplt,
    Rr,
    Wqr,
    Dfplt,
    EctP,
    Stfr,
    Fpf,
    MaxMin,
)
"""Policies for bags in the order of thesis section 5.1.4; the last one is only in Table 5.1."""

ALLOCATION_STRATEGIES: tuple[type[Placement], ...] = STRATEGIES
"""Strategies of the Journal of Grid Computing 9, 2011, in the order of its Table 1."""

OTHER_POLICIES: tuple[type[Placement], ...] = (FileAwareR,)
"""Policies that are in none of these papers."""

PLACEMENT: dict[str, type[Placement]] = {
    policy.name: policy
    for policy in (*WORKFLOW_POLICIES, *BAG_POLICIES, *ALLOCATION_STRATEGIES, *OTHER_POLICIES)
}
"""The registry: all placement policies by name. Each can place tasks of workflows and of bags."""


def placement_class(name: str) -> type[Placement]:
    """The policy with this name. Raises InvalidError for an unknown name; its hint suggests the
    most similar name."""
    return look_up(PLACEMENT, name, "placement policy")


def plans_again(settings: Settings) -> bool:
    """Whether tasks that no site would start soon stay with the engine and are planned again at
    each decision. Set by the policy (``replans``) or by the throttle ``auto``. Policies that bind
    late plan nothing."""
    policy = placement_class(settings.policy)
    if policy.binds_late:
        return False
    return throttle_of(settings) == "auto" or getattr(policy, "replans", False)


def throttle_of(settings: Settings) -> int | Literal["auto"] | None:
    """The throttle of a run: the setting of the user, or else of the policy; None: no throttle.
    Runs with scavenging owners have none unless the user sets one."""
    throttle = settings.throttle
    if throttle is None and settings.scavenge:
        return None  # Launchers pull: nothing is placed ahead of them.
    if throttle is None:
        throttle = getattr(placement_class(settings.policy), "throttle", "none")
    return None if throttle == "none" else throttle


def max_replicas(settings: Settings) -> int:
    """Maximum number of replicas of a task in a run. It is 0 in runs that choose sizes of jobs,
    move jobs, claim processors or scavenge: size, queue and claim belong to the job, not to one of
    its attempts."""
    if settings.plans_queues or settings.place or settings.scavenge:
        return 0
    most = settings.replicas
    if most is None:
        policy = placement_class(settings.policy)
        most = max(policy.replicas, settings.replication == "stragglers")
    return max(0, most)


def observed_of(settings: Settings) -> Observed:
    """What a run observes of other users' jobs at its sites."""
    if settings.plans_queues:
        return "jobs"
    if settings.place or settings.scavenge:
        return "load"
    policy = placement_class(settings.policy)
    fills_free_processors = policy.binds_late or max_replicas(settings) > 0
    return observed_for(policy.information, binds_late=fills_free_processors)


def placement_options(
    policy: type[Placement], given: Mapping[str, int | float | str]
) -> dict[str, int | float | str]:
    """The options of a policy, with defaults for those not given. Raises InvalidError for an
    unknown option or value, or a value of another type."""
    choices: Mapping[str, Sequence[str]] = getattr(policy, "choices", {})  # third parties have none
    options = dict(policy.options)
    for name, value in given.items():
        if name not in options:
            has = f"it has {', '.join(options)}" if options else "it has none"
            raise InvalidError(f"policy {policy.name!r} has no option {name!r}: {has}")
        kind = type(options[name])
        try:
            options[name] = kind(value)
        except ValueError:
            raise InvalidError(
                f"option {name!r} of policy {policy.name!r} is {value!r}: not of type "
                f"{kind.__name__}"
            ) from None
        if name in choices and options[name] not in choices[name]:
            raise InvalidError(
                f"option {name!r} of policy {policy.name!r} is {value!r}: not one of "
                f"{', '.join(choices[name])}"
            )
    return options
