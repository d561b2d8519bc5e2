"""Links between the nodes of sites, in site catalogs. docs/catalog.md has the format."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wfrun.engine.model import NodeLink, SiteSpec
from wfrun.parsers.syntax.sections import Section, in_words, nearest, to_bandwidth, to_latency
from wfrun.parsers.syntax.yaml_document import YamlDocument

NODE_LINK_KEYS = ("within", "between", "latency", "bandwidth")
_ENDS = 2


def with_node_links(document: YamlDocument, sites: Sequence[SiteSpec]) -> tuple[SiteSpec, ...]:
    """The sites with the links of their nodes that the catalog states. Raises InvalidError for the
    first mistake."""
    listed = document.value.get("node_links")
    if listed is None:
        return tuple(sites)
    if not isinstance(listed, list):
        raise document.error(f"'node_links' must be a list, not {in_words(listed)}", "node_links")
    names = [site.name for site in sites]
    links: dict[str, list[NodeLink]] = {name: [] for name in names}
    lines: dict[frozenset[str], int] = {}
    for index in range(len(listed)):
        link = Section(document, ("node_links", index), "a link of nodes", NODE_LINK_KEYS)
        ends = _ends(link, names)
        if frozenset(ends) in lines:
            raise link.error(
                f"the link of the nodes of {' and '.join(dict.fromkeys(ends))} is already on line "
                f"{lines[frozenset(ends)]}",
                hint="Keep one of the two.",
            )
        lines[frozenset(ends)] = document.line("node_links", index)
        latency_s = link.take("latency", to_latency, None)
        bandwidth = link.take("bandwidth", to_bandwidth, None)
        if latency_s is None and bandwidth is None:
            raise link.error("a link of nodes has neither 'bandwidth' nor 'latency'")
        for one, other in dict.fromkeys([ends, ends[::-1]]):
            links[one].append(NodeLink(other, latency_s, bandwidth))
    return tuple(
        msgspec.structs.replace(site, node_links=tuple(links[site.name])) for site in sites
    )


def _ends(link: Section, names: Sequence[str]) -> tuple[str, str]:
    if link.has("within") == link.has("between"):
        hint = "Write 'within: site' or 'between: [one, other]'."
        raise link.error("a link of nodes is either 'within' a site or 'between' two", hint=hint)
    pair = link.values["between"] if link.has("between") else [link.values["within"]] * _ENDS
    if not isinstance(pair, list) or len(pair) != _ENDS:
        raise link.error("'between' must be a list of two sites: [one, other]", "between")
    key = "between" if link.has("between") else "within"
    for name in pair:
        if name not in names:
            hint = nearest(str(name), names, "Sites")
            raise link.error(f"there is no site {str(name)!r}", key, hint=hint)
    if key == "between" and pair[0] == pair[1]:
        raise link.error(f"'between' names {pair[0]} twice", key, hint="Write 'within'.")
    return pair[0], pair[1]
