"""Explanations of tasks as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wfrun.engine.explain.visible import command_line, name_line
from wfrun.runners.display.console import Hanging
from wfrun.runners.display.durations import duration
from wfrun.runners.inspect.explain.explain import (
    ClaimRecord,
    ColumnRecord,
    DecisionRecord,
    ExplainedAttempt,
    Explanation,
    MoveRecord,
    PlannedRecord,
    ReasonRecord,
    TaskExplanation,
)

MAX_ATTEMPTS = 10
"""Maximum number of attempts shown: the last ones."""
MAX_TRIES = 10
"""Maximum number shown of failed tries to place a job, and of claims of a job: the last ones."""
MAX_SIZES = 20
"""Maximum number of sizes of a malleable job shown: the last ones."""
_INDENT = (0, 0, 0, 2)


class TimedExplanation(Protocol):
    """An explanation with times."""

    @property
    def started_s(self) -> float:
        """Start of the run."""

    @property
    def now_s(self) -> float:
        """The time for which the explanation holds."""


def explanation_text(found: Explanation) -> Iterator[RenderableType]:
    """The parts of an explanation, from top to bottom."""
    if found.state == "interrupted":
        command = command_line("wfrun", "resume", found.run)
        yield Text(f"nothing drives the run; to continue: {command}")
    for number, task in enumerate(found.tasks):
        if number:
            yield Text("")
        yield from _task(found, task)
    if found.more:
        yield Text(f"and {found.more} more tasks of this id, in other workflows")


def _task(found: Explanation, task: TaskExplanation) -> Iterator[RenderableType]:
    title = name_line(task.task)
    if task.parameters:
        title += f" ({name_line(task.parameters)})"
    since = "" if task.since_s is None else f" for {_ago(found, task.since_s)}"
    line = Text(f"task {title} of {name_line(task.workflow)} {task.state}{since}", style="bold")
    yield Hanging(line)
    others = task.decision.others if task.decision is not None else ()
    for reason in task.reasons:
        if reason not in others and reason.kind != "running":  # The title says so.
            yield indented(Hanging(Text(reason_line(found, reason))))
    if task.planned is not None:
        yield indented(Hanging(Text(_planned(task.planned))))
    if task.attempts:
        yield Text("")
        yield _attempts(found, task.attempts)
        for one in task.attempts[-MAX_ATTEMPTS:]:
            if one.move is not None:
                yield Hanging(Text(_move(found, one, one.move)))
        last = task.attempts[-1]
        if last.message:
            yield Hanging(Text(f"attempt {last.number}: {name_line(last.message)}"))
            yield Text(f"its output: {command_line('wfrun', 'logs', found.run, task.task)}")
    yield from _claims(found, task)
    yield from _sizes(found, task)
    if task.decision is not None:
        yield Text("")
        yield from decision_parts(found, task.decision)


def _planned(found: PlannedRecord) -> str:
    width = f"{found.processors} processor{'s' * (found.processors != 1)}"
    return (
        f"packed by {found.algorithm} as number {found.number} of {found.jobs}: planned on {width} "
        f"from {duration(found.start_s)} to {duration(found.end_s)} into the allocation"
    )


def _claims(found: Explanation, task: TaskExplanation) -> Iterator[RenderableType]:
    """The tries to place a job, and its claims, in the order of their times."""
    lines = [(one.at_s, f"{_at(found, one.at_s)} into the run it could not be placed; idle: "
              f"{_processors(one.idle)}") for one in task.tries[-MAX_TRIES:]]  # fmt: skip
    lines += [(one.asked_s, _claim(found, one)) for one in task.claims[-MAX_TRIES:]]
    if lines:
        yield Text("")
    if (hidden := len(task.tries) - MAX_TRIES) > 0:
        yield Text(f"{hidden} earlier tries to place it failed")
    for _, line in sorted(lines, key=lambda each: each[0]):
        yield Hanging(Text(line))


def _sizes(found: Explanation, task: TaskExplanation) -> Iterator[RenderableType]:
    """The sizes of a malleable job, the latest last, and what limits the present size."""
    if task.sizes:
        yield Text("")
    if (hidden := len(task.sizes) - MAX_SIZES) > 0:
        yield Text(f"{hidden} earlier sizes")
    for one in task.sizes[-MAX_SIZES:]:
        width = f"{one.size} processor{'s' * (one.size != 1)}"
        yield Hanging(Text(f"{width} from {_at(found, one.at_s)} into the run on: {one.reason}"))
    if task.size_reason:
        yield Hanging(Text(f"it has {task.sizes[-1].size}: {task.size_reason}"))


def _claim(found: TimedExplanation, one: ClaimRecord) -> str:
    text = f"{_at(found, one.asked_s)} into the run it claimed {_processors(one.processors)}"
    if one.granted_s is not None:
        text += f"; all were there after {duration(one.granted_s - one.asked_s)}"
    if one.ended_s is None:
        return text
    why = f"{one.cause}: {one.message}" if one.message else one.cause
    return f"{text}; given back {_at(found, one.ended_s)} into the run ({name_line(why)})"


def _processors(by_site: Mapping[str, int]) -> str:
    return ", ".join(f"{site} {count}" for site, count in by_site.items())


def reason_line(found: TimedExplanation, reason: ReasonRecord, *, with_site: bool = True) -> str:
    """A reason as a line: where, what, for how long and until when."""
    text = reason.text if reason.site is None or not with_site else f"{reason.site}: {reason.text}"
    if reason.since_s is not None:
        text += f" for {_ago(found, reason.since_s)}"
    if reason.until_s is not None:
        left_s = reason.until_s - found.now_s
        text += f", in {duration(left_s)}" if left_s > 0 else ", now"
    return text


def indented(part: RenderableType) -> Padding:
    """A part below a title."""
    return Padding(part, _INDENT, expand=False)


def _ago(found: TimedExplanation, since_s: float) -> str:
    return duration(max(0.0, found.now_s - since_s))


def _attempts(found: Explanation, attempts: tuple[ExplainedAttempt, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("attempt", no_wrap=True, justify="right")
    table.add_column("site", no_wrap=True)
    for heading in ("placed", "started", "ended"):
        table.add_column(heading, no_wrap=True, justify="right")
    is_sized = any(one.size is not None for one in attempts)
    if is_sized:
        table.add_column("size", no_wrap=True, justify="right")
    table.add_column("outcome")
    table.add_column("host", overflow="ellipsis", no_wrap=True)
    for one in attempts[-MAX_ATTEMPTS:]:
        times = (one.placed_s, one.started_s, one.ended_s)
        shown = ["" if at_s is None else _at(found, at_s) for at_s in times]
        outcome = "open" if one.outcome is None else one.outcome
        if _was_moved(one):
            outcome = "moved"
        if one.outcome == "exit":
            outcome += f" {one.exit_code}"
        size = [str(one.size or "")] if is_sized else []
        table.add_row(str(one.number), one.site, *shown, *size, outcome, name_line(one.host))
    return table


def _was_moved(one: ExplainedAttempt) -> bool:
    return one.move is not None and one.outcome == "cancelled"


def _move(found: TimedExplanation, one: ExplainedAttempt, move: MoveRecord) -> str:
    """A decision to move an attempt: where to, and what was expected."""
    where = f"to {move.site}" if move.site != one.site else "to another size"
    text = f"attempt {one.number} was to move {where}, but had started"
    if _was_moved(one):
        text = f"attempt {one.number} was moved {where}"
    elif one.outcome is None and one.started_s is None:
        text = f"attempt {one.number} is being moved {where}"
    text += f" {_at(found, move.at_s)} into the run"
    if move.expected_s is None or move.stay_s is None:
        return text
    there, here = (duration(max(0.0, at_s - move.at_s)) for at_s in (move.expected_s, move.stay_s))
    return f"{text}: expected to end in {there} there, in {here} at {one.site}"


def _at(found: TimedExplanation, at_s: float) -> str:
    """A time since the start of the run."""
    return duration(max(0.0, at_s - found.started_s))


def decision_parts(found: TimedExplanation, decision: DecisionRecord) -> Iterator[RenderableType]:
    """A decision: the scores of the candidates, why the other sites are not candidates, and the
    rule."""
    yield Hanging(Text(_headline(found, decision), style="bold"))
    if decision.scores:
        yield indented(_scores(decision))
    for reason in decision.others:
        yield indented(Hanging(Text(reason_line(found, reason))))
    if decision.scores:
        yield Hanging(Text(_rule(decision)))
    elif decision.attempt is not None and not _is_option(decision.policy):
        yield Text(f"policy {decision.policy} gives no scores")
    if decision.note:
        yield Hanging(Text(decision.note))
    if decision.attempt is not None and not decision.is_repeated:
        text = (
            "this wfrun does not come to the same decision: another version, or an engine that had "
            "just been resumed, took it; the numbers are those of the state at that moment"
        )
        yield Hanging(Text(text, style="dim"))


def _headline(found: TimedExplanation, decision: DecisionRecord) -> str:
    if decision.attempt is None:
        if decision.site is None and not decision.scores:
            return "no site can take it now"
        where = "nowhere" if decision.site is None else f"to {decision.site}"
        return f"{_decider(decision)} would send it {where} now"
    what = "a replica, at" if decision.is_replica else "at"
    where = f"attempt {decision.attempt} is {what} {decision.site}"
    return f"why {where}: {_decider(decision)}, {_at(found, decision.at_s)} into the run"


def _is_option(policy: str) -> bool:
    """Whether an option of the run decided instead of its policy."""
    return " " in policy


def _decider(decision: DecisionRecord) -> str:
    return decision.policy if _is_option(decision.policy) else f"policy {decision.policy}"


def _scores(decision: DecisionRecord) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("site", no_wrap=True)
    for column in decision.columns:
        table.add_column(column.name, no_wrap=True, justify="right")
    texts = [_texts(decision, number) for number in range(len(decision.columns))]
    for row, *values in zip(decision.scores, *texts, strict=True):
        is_chosen = row.site == decision.site
        mark = " ←" if is_chosen else ""
        table.add_row(row.site, *values, mark, style="bold" if is_chosen else "")
    return table


def _texts(decision: DecisionRecord, number: int) -> list[str]:
    """The values of a column as texts. In the column that decided, different values whose texts
    would be equal are given in full."""
    column = decision.columns[number]
    values = [row.values[number] for row in decision.scores]
    texts = [_value(column, value) for value in values]
    if column.name != _decisive(decision):
        return texts
    pairs = list(zip(values, texts, strict=True))
    alike = {text for text in texts if len({value for value, t in pairs if t == text}) > 1}
    return [_full(column, value, text) if text in alike else text for value, text in pairs]


def _full(column: ColumnRecord, value: float | bool | str | None, text: str) -> str:
    """A number with all its digits."""
    if isinstance(value, (bool, str)) or value is None:
        return text
    return f"{value:.12g} s" if column.unit == "s" else f"{value:.12g}"


def _value(column: ColumnRecord, value: float | bool | str | None) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if column.unit == "yes/no":
        return "yes" if value else "no"
    if column.unit == "s":
        return duration(value)
    return f"{value:.0f}" if column.unit == "cores" else f"{value:.4g}"


def _rule(decision: DecisionRecord) -> str:
    """Text on how the sites are ranked, and on which column decided."""
    if len(decision.scores) == 1:
        return f"{decision.scores[0].site} is the only candidate"
    words = [
        f'"{column.name}" first' if column.unit == "yes/no" else f'{column.prefers} "{column.name}"'
        for column in decision.columns
        if column.prefers
    ]
    rule = f"ranked by {', then '.join(words)}; ties go to the first site in the catalog"
    decisive = _decisive(decision)
    return rule if decisive is None else f'decided by "{decisive}"; {rule}'


def _decisive(decision: DecisionRecord) -> str | None:
    """Name of the ranking column that decided. Other sites equal the chosen one in the ranking
    columns before it, but not in this one. None: other sites equal the chosen site in all ranking
    columns, or no site was chosen."""
    own = next((row for row in decision.scores if row.site == decision.site), None)
    if own is None:
        return None
    left = list(decision.scores)
    for number, column in enumerate(decision.columns):
        if column.prefers:
            left = [row for row in left if row.values[number] == own.values[number]]
        if len(left) == 1:
            return column.name
    return None
