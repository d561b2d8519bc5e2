"""Setting links in a catalog document without changing any other byte.

The text is edited at the positions that the YAML parser reports: figures (bandwidth and latency)
are replaced, and a new link gets a line after the last one. Links that cannot be edited this way
are refused: a list in brackets, and links with anchors or aliases, since their change would affect
other places.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import LinkSpec
from wfrun.parsers.syntax.units import parse_bandwidth, parse_duration

_LINE_ENDS = "\r\n\x85\u2028\u2029"
"""Characters that end a line. Source: YAML 1.1, section 4.1.4."""
_UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))


def as_written(link: LinkSpec) -> LinkSpec:
    """The link as a reader finds it after ``with_links`` has written it, with rounded figures. The
    link must have a bandwidth."""
    figures = _figures(link)
    return LinkSpec(
        link.source,
        link.destination,
        parse_bandwidth(figures["bandwidth"]),
        parse_duration(figures["latency"]),
    )


def with_links(document: str, links: Sequence[LinkSpec], source: str) -> str:
    """Return ``document``, a valid catalog, in which ``links`` replace the links that it has
    between the same places. Each of ``links`` must have a bandwidth.

    Raises InvalidError, with the lines to write by hand, if the links cannot be edited. Some YAML
    layouts may not be foreseen here, so the caller must compare the resulting catalog.
    """
    try:
        edits = _edits(document, links)
    except _NotEditableError as error:
        raise not_editable(links, source, str(error)) from None
    for edit in sorted(edits, reverse=True):
        document = document[: edit.start] + edit.text + document[edit.end :]
    return document


def not_editable(links: Sequence[LinkSpec], source: str, why: str) -> InvalidError:
    """The error for links that the user has to write by hand."""
    lines = "\n".join(f"  {line}" for line in _items(links))
    return InvalidError(
        f"the measured links cannot be written into the catalog: {why}",
        source=source,
        hint=f"Write them by hand:\nlinks:\n{lines}",
    )


class _NotEditableError(Exception):
    """Reports why a document cannot be edited."""


class _Edit(NamedTuple):
    start: int
    end: int
    rank: int
    """Order of edits at the same place: the text of a higher rank comes later in the document."""
    text: str


_LAST = 9
"""Rank of new links: they come after new keys of the link above them."""


def _edits(document: str, links: Sequence[LinkSpec]) -> list[_Edit]:
    root = yaml.compose(document, Loader=yaml.SafeLoader)
    if not isinstance(root, MappingNode) or root.flow_style:
        raise _NotEditableError("it is written in braces")
    listed = _values(root).get("links")
    if listed is None:
        at = _after_comments(document, _end_of_line(document, _end(document, root)))
        return [_new_lines(document, at, root.start_mark.column, ["links:", *_items(links, 2)])]
    _check_no_aliases(document, listed)
    start, end = listed.start_mark.index, listed.end_mark.index
    if not isinstance(listed, SequenceNode) or not listed.value:  # nothing, or an empty list
        at = _end_of_line(document, end)
        lines = _new_lines(document, at, root.start_mark.column + 2, _items(links))
        return [_Edit(start, end, 0, ""), lines]
    if listed.flow_style:
        raise _NotEditableError("they are listed in brackets")
    edits = [edit for item in listed.value for edit in _changes(document, item, links)]
    known = {pair for item in listed.value for pair in _ends(item)[:1]}
    new = [link for link in links if (link.source, link.destination) not in known]
    used = {pair: _use(item) for item in listed.value for pair in _ends(item)[1:]}
    at = _end_of_line(document, _end(document, listed))
    return [*edits, _new_lines(document, at, listed.start_mark.column, _items(new, used=used))]


def _changes(document: str, item: MappingNode, links: Sequence[LinkSpec]) -> Iterator[_Edit]:
    """Set the figures of one item of the list of links, if ``links`` has its link. An item
    ``between`` two places becomes the link from the first place to the second."""
    measured = {(link.source, link.destination): link for link in links}
    ends = _ends(item)
    if measured.keys().isdisjoint(ends):
        return
    if not measured.keys() >= set(ends):
        raise _NotEditableError("one way of a link 'between' two places was not measured")
    values = _values(item)
    if "between" in values:
        key = next(key for key, _ in item.value if key.value == "between")
        text = _joined(document, item, _direction(*ends[0]))
        yield _Edit(key.start_mark.index, _end(document, values["between"]), 0, text)
    rank = 1
    for name, figure in _figures(measured[ends[0]]).items():
        if name in values:
            value = values[name]
            yield _Edit(value.start_mark.index, value.end_mark.index, 0, figure)
        else:
            at = _end(document, item.value[-1][1])
            if not item.flow_style:
                at = _end_of_line(document, at)
            yield _Edit(at, at, rank, _joined(document, item, ["", f"{name}: {figure}"]))
            rank += 1


def _joined(document: str, item: MappingNode, entries: Sequence[str]) -> str:
    """Entries of a mapping, joined in the mapping's style."""
    if item.flow_style:
        return ", ".join(entries)
    return (_line_end(document) + " " * item.start_mark.column).join(entries)


def _new_lines(document: str, at: int, column: int, lines: Sequence[str]) -> _Edit:
    """Insert lines, indented to this column, at the end of a line."""
    start = _line_end(document) + " " * column
    return _Edit(at, at, _LAST, "".join(start + line for line in lines))


def _items(
    links: Sequence[LinkSpec],
    column: int = 0,
    used: Mapping[tuple[str, str], Sequence[str]] | None = None,
) -> list[str]:
    """Lines of the list for ``links``, one link a line. ``used`` has, by (source, destination),
    entries that a line gets in addition to its figures."""
    entries = (
        [*_direction(*ends), *map(": ".join, _figures(link).items()), *(used or {}).get(ends, ())]
        for link in links
        for ends in [(link.source, link.destination)]
    )
    return [f"{' ' * column}- {{{', '.join(each)}}}" for each in entries]


def _direction(source: str, destination: str) -> list[str]:
    return [f"from: {_name(source)}", f"to: {_name(destination)}"]


def _figures(link: LinkSpec) -> dict[str, str]:
    """Catalog keys and values of a link that has a bandwidth, with three significant digits."""
    rate = link.bandwidth_bytes_per_s
    assert rate is not None
    size, unit = next((each for each in _UNITS if rate >= each[0]), _UNITS[-1])
    latency_s = link.latency_s
    latency = f"{_digits(latency_s * 1e3)} ms" if latency_s < 1 else f"{_digits(latency_s)} s"
    return {"bandwidth": f"{_digits(rate / size)} {unit}", "latency": latency}


def _digits(number: float) -> str:
    """A number with three significant digits. Numbers from 0.0001 to below a million have no
    exponent."""
    return f"{float(f'{number:.3g}'):g}"


def _name(site: str) -> str:
    """The name of a site, in quotes if YAML reads it as something else, such as a number."""
    return site if yaml.safe_load(site) == site else json.dumps(site)


# Nodes


def _values(mapping: MappingNode) -> dict[str, Node]:
    return {key.value: value for key, value in mapping.value if isinstance(key, ScalarNode)}


def _ends(item: MappingNode) -> list[tuple[str, str]]:
    """(source, destination) of each link of an item; an item with ``between`` has both
    directions."""
    values = _values(item)
    if "between" in values:
        one, other = (str(end.value) for end in values["between"].value)
        return [(one, other), (other, one)]
    return [(str(values["from"].value), str(values["to"].value))]


def _use(item: MappingNode) -> list[str]:
    """The entries of an item other than its ends and figures: they say how the link is used."""
    figures = ("between", "bandwidth", "latency")
    return [f"{k}: {_in_a_line(v)}" for k, v in _values(item).items() if k not in figures]


def _in_a_line(node: Node) -> str:
    """A value, or a list of them, in one line."""
    if isinstance(node, SequenceNode):
        return f"[{', '.join(map(_in_a_line, node.value))}]"
    is_plain = isinstance(node, ScalarNode) and not node.style
    return str(node.value) if is_plain else json.dumps(node.value)


def _check_no_aliases(document: str, node: Node) -> None:
    places = range(node.start_mark.index, node.end_mark.index)
    for token in yaml.scan(document, Loader=yaml.SafeLoader):
        is_shared = isinstance(token, yaml.AliasToken | yaml.AnchorToken)
        if is_shared and token.start_mark.index in places:
            raise _NotEditableError("they have anchors or aliases")


# Places in the text


def _line_end(document: str) -> str:
    return "\r\n" if "\r\n" in document else "\n"


def _end(document: str, node: Node) -> int:
    """The end of the text of a node, without comments and empty lines after it."""
    if isinstance(node, CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(document, last[1] if isinstance(last, tuple) else last)
    at: int = node.end_mark.index
    while at > node.start_mark.index and document[at - 1] in _LINE_ENDS:
        at -= 1  # a block scalar ends at the beginning of the line after it
    return at


def _end_of_line(document: str, at: int) -> int:
    while at < len(document) and document[at] not in _LINE_ENDS:
        at += 1
    return at


def _after_comments(document: str, at: int) -> int:
    """Skip the indented comments on the next lines: they belong to the entry above them."""
    while True:
        start = at + (2 if document[at : at + 2] == "\r\n" else 1)
        end = _end_of_line(document, start)
        line = document[start:end]
        if not line.startswith(" ") or not line.lstrip(" ").startswith("#"):
            return at
        at = end
