"""Changes of runs of moldable jobs on a resume."""

from __future__ import annotations

import pytest

from tests.engine.reallocation.test_moved_sizes import waiting_run
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.engine.policies.placement import max_replicas
from wfrun.runners.run.changes import changed_run


def test_sites_that_take_larger_sizes_alone_are_accepted() -> None:
    """With one processor the jobs take 4000 s, with two 2000 s."""
    state = waiting_run().state
    for walltime_s, fits in ((2500.0, True), (900.0, False)):
        sites = SiteSpec("full", 4, walltime_s=walltime_s), SiteSpec("idle", 2, walltime_s=900.0)
        if fits:
            change = changed_run(state, {}, Catalog(sites))
            assert change is not None
            assert change.sites == sites
        else:
            with pytest.raises(InvalidError, match="fits no site with any of its sizes"):
                changed_run(state, {}, Catalog(sites))


def test_a_policy_is_refused_where_the_size_chooses_the_site() -> None:
    with pytest.raises(InvalidError, match="has no effect: the search of sizes"):
        changed_run(waiting_run().state, {"policy": "heft"}, None)


def test_replicas_of_jobs_with_sizes_are_refused() -> None:
    with pytest.raises(InvalidError, match="have no replicas"):
        changed_run(waiting_run().state, {"replicas": 1}, None)


def test_stragglers_among_jobs_with_sizes_get_no_replicas() -> None:
    change = changed_run(waiting_run().state, {"replication": "stragglers"}, None)
    assert change is not None
    assert max_replicas(change.settings) == 0
