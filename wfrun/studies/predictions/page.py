"""The page of the study: every table and figure beside the papers' numbers, and all claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wfrun.studies.common.claim import Answer
from wfrun.studies.common.page import DETAILS, opening, table
from wfrun.studies.predictions.differences import CAUSES, DIFFERENCES, SUMMARY
from wfrun.studies.predictions.part import PartSetting


def predictions_page(
    setting: PartSetting, sections: Iterable[Iterable[str]], found: Sequence[Answer]
) -> str:
    """The page in Markdown. ``sections`` are the sections of the parts."""
    parts = [
        *_head(setting, found),
        *_workloads(setting),
        *_claims(found),
        *DIFFERENCES.splitlines(),
        *DETAILS,
        *(line for section in sections for line in section),
    ]
    return "\n".join(parts) + "\n"


def _head(setting: PartSetting, found: Sequence[Answer]) -> Iterator[str]:
    counted = [answer for answer in found if not answer.claim.always]
    held = sum(answer.holds for answer in counted)
    usually = sum(answer.usually for answer in counted)
    left = len(found) - len(counted)
    quick = " --quick" if setting.quick else ""
    corpus = "" if all(w.generated for w in setting.workloads) else " --corpus DIR"
    yield "# Study `predictions`: how accurate predictions are, and what they are good for"
    yield ""
    yield from opening(SUMMARY, found)
    yield (
        "This page compares measurements by wfrun with chapter 7 of a thesis and with section 6.2 "
        "of a paper, on predictions of run times and queue waits. One command makes it:"
    )
    yield ""
    yield f"    wfrun study predictions{quick}{corpus} --output study"
    yield ""
    yield (
        "It writes this page and its figures, and keeps every measurement in files of results, so "
        f"that an interrupted study is continued. {_LENGTH[setting.quick]} `--corpus` is a folder "
        "with logs of the Parallel Workloads Archive, of which those on this page are used, and "
        "logs of grids (`*.gwf`); other logs can be named after `predictions`. Without a log, all "
        "workloads are generated. `--jobs 2` limits the number of processes; `--on sites.yaml` "
        "measures at [clusters](simulate.md#over-several-clusters)."
    )
    yield ""
    yield (
        'Sources: O. O. Sonmez, "Application-oriented scheduling in multicluster grids", TU Delft '
        "2010, chapter 7; J. M. Ramírez-Alcaraz et al., Journal of Grid Computing 9, 2011, section "
        "6.2 (below: JGC). The predictors are those of `wfrun predict`."
    )
    yield ""
    yield (
        f"**{held} of {len(counted)} claims hold on all workloads that they are about, {usually} "
        f"on most of them; {left} that cannot fail are not counted.**"
    )


_LENGTH = {
    True: "This is the quick study, with the beginning of each log: about seven minutes of "
    "processor time. Without `--quick` it has whole logs and takes about two hours.",
    False: "It takes about two hours of processor time; with `--quick`, which has the beginning of "
    "each log, about seven minutes.",
}


def _workloads(setting: PartSetting) -> Iterator[str]:
    real = [w.title for w in setting.workloads if not w.generated]
    yield ""
    yield "## Workloads"
    yield ""
    if real:
        yield (
            f"Logs: {', '.join(real)}. LPC-EGEE, a site of a grid, is among the production grids; "
            "the other logs of the Parallel Workloads Archive are of parallel machines, each of "
            "which is one site. Thanks to all who gave their logs to the archive."
        )
    else:
        yield (
            "No log was given (`--corpus`, or names of logs), so that all workloads are generated: "
            "results on real jobs are missing here."
        )
    yield ""
    yield (
        "The traces of the Grid Workloads Archive that the thesis uses are not public here. "
        "Workloads with a * are generated in their place: the bags of Table 5.3 with their users "
        "and applications, one stream for the grid; the clusters and the share of parallel jobs of "
        "Table 7.1; each bag arrives as a burst at one of its user's three clusters, which "
        "schedule FCFS at a load of 20% (research) or 70% (production; section 7.1). They have "
        "the bursts, not the users' habits, of the real traces: what depends on similar jobs "
        "following each other is decided by the fits of Table 5.3."
    )


def _claims(found: Sequence[Answer]) -> Iterator[str]:
    yield ""
    yield "## The claims"
    yield ""
    yield (
        "In our words. A claim about each trace holds if it holds on every workload here; the "
        "last column says whether it holds on more than half of them. No bound was fitted."
    )
    rows = ((str(a.number), a.claim.where, a.claim.text, *_verdicts(a)) for a in found)
    header = ("", "section", "claim", "holds", "here", "on most", "cause")
    yield from table(header, rows)


def _verdicts(answer: Answer) -> tuple[str, ...]:
    if answer.claim.always:
        return f"cannot fail: {answer.claim.always}", answer.evidence, "-", ""
    cause = "" if answer.holds else CAUSES.get(answer.number, "unexplained")
    return _yes(answer.holds), answer.evidence, _yes(answer.usually), cause


def _yes(holds: bool) -> str:
    return "yes" if holds else "**no**"
