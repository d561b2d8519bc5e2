"""What the pages of studies share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wfrun.studies.common.claim import Answer, tally_by_kind
from wfrun.studies.common.options import QUICK_NOTICE


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown, after an empty line."""
    yield ""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def study_head(
    name: str, title: str, summary: str, runs: str, found: Sequence[Answer],
    length: str, source: str, *, quick: bool,
) -> Iterator[str]:  # fmt: skip
    """The head of a page: its title, the ``summary`` of what the paper and the study found, the
    numbers of claims that hold, the text ``runs`` on the number of runs, the main claims, the
    command with its duration ``length``, and the text ``source`` on the paper."""
    yield f"# Study `{name}`: {title}"
    yield ""
    if quick:
        yield from QUICK_NOTICE
    yield from summary.splitlines()
    yield ""
    yield f"**{tally_by_kind(found)}.** {runs}"
    yield ""
    yield "Main claims:"
    yield ""
    yield from main_claims(found)
    yield ""
    yield f"    wfrun study {name}{' --quick' if quick else ''} --output study"
    yield ""
    yield f"makes this page in {length}, and keeps all runs in `study/results.csv`. {source}"


VERDICTS = (
    "A claim *holds* or *does not hold* with 95% confidence, or is *not distinguishable*: the "
    "repetitions do not decide. Two policies are compared by the differences between their values "
    "in each repetition, with the same workload, background and random choices (Student's interval "
    "of the mean difference). A claim that consists of several comparisons holds if all of them "
    "do, and does not if one of them is refuted; the probability of error is divided among them "
    "(Bonferroni), so that the confidence is that of the claim. Claims that cannot fail are marked "
    "and do not count."
)


def claims_table(found: Sequence[Answer], causes: Mapping[int, str] | None = None) -> Iterator[str]:
    """The answers with their numbers. With ``causes`` a column tells why a claim does not hold: the
    text in ``causes`` for its number, else the claim's own text, else *unexplained*."""

    def cells(answer: Answer) -> Iterator[str]:
        yield from (str(answer.number), answer.claim.where, answer.claim.text)
        yield from (verdict_cell(answer), answer.evidence)
        if causes is not None:
            known = causes.get(answer.number) or answer.claim.cause or "unexplained"
            yield "" if answer.holds or answer.claim.always else known

    header = ("", "section", "claim", "verdict", "means")
    yield from table(
        (*header, *(("cause",) if causes is not None else ())), map(tuple, map(cells, found))
    )


DETAILS = ("", "## Details", "", "All tables and figures that the verdicts rest on.")
"""The first lines of the part of a page that has the details behind the results."""


def opening(summary: str, found: Sequence[Answer]) -> Iterator[str]:
    """The first part of a page: the ``summary`` of what the paper and the study found, the counts
    of main claims and details, and the main claims."""
    yield from summary.splitlines()
    yield ""
    yield f"{tally_by_kind(found)}. The main claims (abstract and conclusions):"
    yield ""
    yield from main_claims(found)
    yield ""


def main_claims(found: Sequence[Answer]) -> Iterator[str]:
    """A line for each main claim: verdict, words and number."""
    for one in found:
        if one.claim.main:
            yield f"- {verdict_cell(one)}: {one.claim.text} (claim {one.number})"


def verdict_cell(answer: Answer) -> str:
    """The text of the verdict. For a claim that cannot fail, the text says so and gives the
    reason."""
    if answer.claim.always:
        return f"cannot fail: {answer.claim.always}"
    return answer.verdict.value if answer.holds else f"**{answer.verdict.value}**"
