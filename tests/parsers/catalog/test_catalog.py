"""Site catalogs: what they mean, and what each mistake gets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.places import EXAMPLES
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import LinkSpec, NodeGroup, SiteSpec
from wfrun.sites.catalog import read_catalog

COMPLETE = """\
sites:
  alpha:
    kind: local
    directory: scratch/alpha
    slots: 4
    speed: 1.2
    memory: 8 GiB
    gpus: 1
    walltime: 24:00:00
    pin_cores: true
    storage: 500 GB
    price_per_core_hour: 0.05 EUR
    watts_per_core: 7.5
  beta-2:
    slots: 16
links:
  - between: [alpha, beta-2]
    bandwidth: 185 MB/s
    latency: 0.4 ms
  - from: origin
    to: alpha
    bandwidth: 1 Gb/s
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "sites.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_key_has_its_meaning(tmp_path: Path) -> None:
    path = written(tmp_path, COMPLETE)
    catalog = read_catalog(path)
    assert catalog.source == str(path)
    assert catalog.sites == (
        SiteSpec(
            name="alpha",
            slots=4,
            speed_ratio=1.2,
            memory_bytes=8 * 2**30,
            gpus=1,
            walltime_s=86400.0,
            kind="local",
            directory=str(tmp_path / "scratch" / "alpha"),
            pin_cores=True,
            storage_bytes=500 * 10**9,
            price_per_core_hour=0.05,
            currency="EUR",
            watts_per_core=7.5,
        ),
        SiteSpec(name="beta-2", slots=16),
    )
    assert catalog.links == (
        LinkSpec("alpha", "beta-2", 185e6, 0.0004),
        LinkSpec("beta-2", "alpha", 185e6, 0.0004),
        LinkSpec("origin", "alpha", 125e6, 0.0),
    )


def test_nodes_give_a_site_its_slots(tmp_path: Path) -> None:
    text = (
        "sites:\n"
        "  a:\n"
        "    speed: 1.5\n"
        "    nodes:\n"
        "    - {count: 80, cores: 2, mtbf: 30 d, mttr: 4 h}\n"
        "    - {count: 5, cores: 4, speed: 1.2}\n"
        "  b: {slots: 6, nodes: [{count: 2, cores: 3}]}\n"
    )
    groups = (
        NodeGroup(80, 2, mtbf_s=30 * 86400.0, mttr_s=4 * 3600.0),
        NodeGroup(5, 4, speed_ratio=1.2),
    )
    assert read_catalog(written(tmp_path, text)).sites == (
        SiteSpec("a", 180, speed_ratio=1.5, nodes=groups),
        SiteSpec("b", 6, nodes=(NodeGroup(2, 3),)),
    )


def test_directories_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = (
        "sites:\n"
        "  a: {slots: 1, directory: ~/grid}\n"
        "  b: {slots: 1, directory: /scratch/b}\n"
        "  c: {slots: 1, directory: ../c}\n"
    )
    (tmp_path / "catalogs").mkdir()
    monkeypatch.chdir(tmp_path / "catalogs")
    written(Path(), text)
    directories = [site.directory for site in read_catalog("sites.yaml").sites]
    assert directories == [str(tmp_path / "home/grid"), "/scratch/b", str(tmp_path / "c")]


MISTAKES = {
    # what is wrong: (document, line, words of the message)
    "a price without a currency": (
        "sites:\n  a:\n    slots: 1\n    price_per_core_hour: 0.05\n",
        4,
        ["price_per_core_hour of site a", "'0.05 EUR'"],
    ),
    "prices that have no sum": (
        "sites:\n  a: {slots: 1, price_per_core_hour: 1 EUR}\n"
        "  b:\n    slots: 1\n    price_per_core_hour: 1 USD\n",
        5,
        ["site b is in USD", "site a in EUR"],
    ),
    "watts below 0": (
        "sites:\n  a:\n    slots: 1\n    watts_per_core: -1\n",
        4,
        ["watts_per_core of site a", "at least 0"],
    ),
    "no sites": ("links: []\n", 1, ["no sites", "sites:"]),
    "null sites": ("sites:\n", 1, ["no sites"]),
    "empty sites": ("a: 1\nsites: {}\n", 1, ["no key 'a'"]),
    "a list of sites": ("sites:\n  - alpha\n", 1, ["mapping", "a list"]),
    "not a mapping": ("- a\n", 1, ["mapping", "a list"]),
    "a wrong section": ("site:\n  a: {slots: 1}\n", 1, ["'site'", "Did you mean 'sites'?"]),
    "a wrong site key": (
        "sites:\n  a:\n    slots: 1\n    sped: 2\n",
        4,
        ["site a", "'sped'", "Did you mean 'speed'?"],
    ),
    "no slots": ("sites:\n  a:\n    speed: 2\n", 2, ["site a", "slots: N"]),
    "an empty site": ("sites:\n  a:\n", 2, ["site a", "nothing"]),
    "zero slots": ("sites:\n  a:\n    slots: 0\n", 3, ["slots", "above 0"]),
    "negative slots": ("sites:\n  a:\n    slots: -3\n", 3, ["slots", "above 0, not -3"]),
    "half a slot": ("sites:\n  a:\n    slots: 1.5\n", 3, ["slots", "whole number", "1.5"]),
    "slots as text": ("sites:\n  a:\n    slots: many\n", 3, ["whole number", "'many'"]),
    "slots as truth": ("sites:\n  a:\n    slots: true\n", 3, ["whole number", "true"]),
    "no speed": ("sites:\n  a: {slots: 1, speed: 0}\n", 2, ["speed", "above 0"]),
    "endless speed": ("sites:\n  a: {slots: 1, speed: .inf}\n", 2, ["speed", "finite"]),
    "odd memory": ("sites:\n  a: {slots: 1, memory: 8 G}\n", 2, ["memory", "'8 G'", "GiB"]),
    "no memory": ("sites:\n  a: {slots: 1, memory: 0}\n", 2, ["memory", "above 0"]),
    "negative gpus": ("sites:\n  a: {slots: 1, gpus: -1}\n", 2, ["gpus", "at least 0"]),
    "odd walltime": ("sites:\n  a: {slots: 1, walltime: '1:30'}\n", 2, ["walltime", "HH:MM:SS"]),
    "no walltime": ("sites:\n  a: {slots: 1, walltime: 0}\n", 2, ["walltime", "above 0"]),
    "odd truth": ("sites:\n  a: {slots: 1, pin_cores: 1}\n", 2, ["pin_cores", "true or false"]),
    "unknown kind": (
        "sites:\n  a: {slots: 1, kind: cloud}\n",
        2,
        ["kind", "'cloud'", "the kinds are: local, ssh"],
    ),
    "a listed kind": ("sites:\n  a: {slots: 1, kind: [local]}\n", 2, ["kind", "local"]),
    "no directory": ("sites:\n  a: {slots: 1, directory: ''}\n", 2, ["directory", "path"]),
    "unknown home": ("sites:\n  a: {slots: 1, directory: ~nobody-here/x}\n", 2, ["home"]),
    "a control character": (
        'sites:\n  a: {slots: 1, directory: "x\\n"}\n',
        2,
        ["directory", "control"],
    ),
    "a shared directory": (
        "sites:\n  a: {slots: 1, directory: /x}\n  b:\n    slots: 1\n    directory: /y/../x/\n",
        5,
        ["site b", "same directory as site a"],
    ),
    "a bad name": ("sites:\n  my site: {slots: 1}\n", 2, ["'my site'", "letters, digits"]),
    "a number as name": ("sites:\n  12: {slots: 1}\n", 2, ["'12'", "quotes"]),
    "the reserved name": ("sites:\n  origin: {slots: 1}\n", 2, ["origin", "another name"]),
    "a repeated site": ("sites:\n  a: {slots: 1}\n  a: {slots: 2}\n", 3, ["'a'", "line 2"]),
}

NODES = "sites:\n  a:\n    nodes:\n"

NODE_MISTAKES = {
    "one group": ("    - {count: 2, cores: 2}\n    slots: 5\n", 5, ["5 slots", "4 cores"]),
    "two groups": (
        "    - {count: 2, cores: 2}\n    - {count: 1, cores: 8, speed: 2}\n    slots: 4\n",
        6,
        ["4 slots", "12 cores", "Remove 'slots'"],
    ),
    "not a list": ("      {count: 2, cores: 2}\n", 3, ["site a", "list of groups", "a mapping"]),
    "a number": ("    - 4\n", 4, ["group of nodes of site a", "mapping", "4"]),
    "no group": ("      []\n", 3, ["empty list of nodes"]),
    "nothing": ("", 3, ["site a", "nothing"]),
    "no count": ("    - cores: 2\n", 4, ["no 'count'"]),
    "no cores": ("    - cores: 2\n      count: 2\n    - count: 1\n", 6, ["no 'cores'"]),
    "zero nodes": ("    - cores: 2\n      count: 0\n", 5, ["count", "above 0"]),
    "zero cores": ("    - {count: 2, cores: 0}\n", 4, ["cores", "above 0"]),
    "no speed": ("    - count: 2\n      cores: 1\n      speed: 0\n", 6, ["speed", "above 0"]),
    "a wrong key": ("    - {count: 2, core: 1}\n", 4, ["Did you mean 'cores'?"]),
    "no repair": (
        "    - count: 2\n      cores: 1\n      mtbf: 30 d\n",
        6,
        ["has 'mtbf' but no 'mttr'"],
    ),
    "no failure": ("    - {count: 2, cores: 1, mttr: 1 h}\n", 4, ["no 'mtbf'"]),
    "odd repair": ("    - {count: 2, cores: 1, mtbf: 1 d, mttr: 1 x}\n", 4, ["mttr", "'1 x'"]),
    "quick repair": ("    - {count: 2, cores: 1, mtbf: 1 d, mttr: 0}\n", 4, ["above 0"]),
}

SITES = "sites:\n  alpha: {slots: 1}\n  beta: {slots: 1}\nlinks:\n"

LINK_MISTAKES = {
    "not a list": ("  a: 1\n", 4, ["'links'", "list"]),
    "not a mapping": ("  - fast\n", 5, ["a link", "'fast'"]),
    "an unknown site": (
        "  - between:\n    - alpha\n    - betta\n    latency: 1 ms\n",
        7,
        ["'betta'", "Did you mean 'beta'?", "origin"],
    ),
    "an unknown end": (
        "  - from: alpha\n    to: b\n    latency: 1 ms\n",
        6,
        ["no site 'b'", "alpha, beta, origin"],
    ),
    "no end": ("  - from: alpha\n    latency: 1 ms\n", 5, ["no 'to'"]),
    "no beginning": ("  - latency: 1 ms\n", 5, ["no 'from'", "between"]),
    "both forms": (
        "  - between: [alpha, beta]\n    to: beta\n    latency: 1 ms\n",
        6,
        ["both 'between' and 'to'"],
    ),
    "three ends": ("  - between: [alpha, beta, alpha]\n    latency: 1\n", 5, ["two sites"]),
    "to itself": ("  - between: [beta, beta]\n    latency: 1\n", 5, ["beta to itself"]),
    "no figures": ("  - between: [alpha, beta]\n", 5, ["bandwidth"]),
    "no bandwidth": (
        "  - between: [alpha, beta]\n    bandwidth: 0\n",
        6,
        ["bandwidth", "above 0"],
    ),
    "negative latency": (
        "  - between: [alpha, beta]\n    latency: -1 ms\n",
        6,
        ["latency", "at least 0"],
    ),
    "odd bandwidth": (
        "  - between: [alpha, beta]\n    bandwidth: 100 MB\n",
        6,
        ["bandwidth", "'100 MB'", "MB/s"],
    ),
    "a wrong key": (
        "  - between: [alpha, beta]\n    bandwith: 1 MB/s\n",
        6,
        ["Did you mean 'bandwidth'?"],
    ),
    "repeated": (
        "  - between: [alpha, beta]\n    latency: 1 ms\n  - from: beta\n    to: alpha\n"
        "    latency: 2 ms\n",
        7,
        ["from beta to alpha", "line 5"],
    ),
}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        *(pytest.param(*case, id=name) for name, case in MISTAKES.items()),
        *(
            pytest.param(SITES + text, line, words, id=f"link: {name}")
            for name, (text, line, words) in LINK_MISTAKES.items()
        ),
        *(
            pytest.param(NODES + text, line, words, id=f"nodes: {name}")
            for name, (text, line, words) in NODE_MISTAKES.items()
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, words: list[str]
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidError) as caught:
        read_catalog(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ")
    for word in words:
        assert word in message


def test_sites_that_share_a_directory_through_a_symbolic_link_are_found(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "alias")
    path = written(
        tmp_path,
        "sites:\n  a: {slots: 1, directory: real}\n  b: {slots: 1, directory: alias}\n",
    )
    with pytest.raises(InvalidError, match="same directory as site a"):
        read_catalog(path)


def test_an_absent_catalog_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"none\.yaml: cannot be read: No such file"):
        read_catalog(tmp_path / "none.yaml")


def test_the_das3_example_has_the_clusters_of_the_thesis() -> None:
    catalog = read_catalog(EXAMPLES / "das3.yaml")
    assert [(site.name, site.slots, site.speed_ratio) for site in catalog.sites] == [
        ("vrije", 340, 1.0),
        ("amsterdam", 164, 0.917),
        ("delft", 136, 1.0),
        ("multimedian", 92, 1.0),
        ("leiden", 64, 1.083),
    ]
    assert len(catalog.links) == 5 * 4
    assert LinkSpec("delft", "vrije", 45e6, 0.00115) in catalog.links


def test_the_three_sites_example_is_small_and_fully_linked() -> None:
    catalog = read_catalog(EXAMPLES / "three-sites.yaml")
    assert [site.slots for site in catalog.sites] == [2, 2, 2]
    assert all(site.directory is None for site in catalog.sites)
    assert len(catalog.links) == 3 * 2


TRANSFERS = """\
transfer: [rsync, stream]
sites:
  here: {slots: 1}
  a: {kind: ssh, host: a.org, slots: 1, direct: forward}
  b: {kind: ssh, host: b.org, slots: 1, direct: key, direct_key: ~/.ssh/id_x}
  c: {kind: ssh, host: c.org, slots: 1, direct_host: data.c.org, direct_port: 2222, rclone: st:b/w}
links:
  - {from: a, to: b, transfer: scp}
  - {between: [a, c], bandwidth: 1 MB/s}
  - {between: [origin, a], bandwidth: 3 MB/s}
  - {between: [origin, b], bandwidth: 2 MB/s}
"""


def test_methods_of_links_and_of_the_catalog(tmp_path: Path) -> None:
    """A link without methods has those of the catalog, if both of its sites are remote; one that
    names methods alone gets its speed as one that is not in the catalog."""
    catalog = read_catalog(written(tmp_path, TRANSFERS))
    links = {(link.source, link.destination): link for link in catalog.links}
    methods = {ends: link.methods for ends, link in links.items() if link.methods}
    both = ("rsync", "stream")
    pairs = [(x, y) for x in "abc" for y in "abc" if x != y]
    assert methods == {pair: ("scp",) if pair == ("a", "b") else both for pair in pairs}
    assert links["a", "b"].bandwidth_bytes_per_s == 2e6
    assert links["a", "c"].bandwidth_bytes_per_s == 1e6
    assert not links["b", "c"].has_speed
    a, b, c = (site.access for site in catalog.sites[1:])
    assert a is not None
    assert b is not None
    assert c is not None
    assert (a.direct, b.direct, b.direct_key, c.direct) == ("forward", "key", "~/.ssh/id_x", None)
    assert (c.direct_host, c.direct_port) == ("data.c.org", 2222)
    assert (a.rclone, c.rclone) == (None, "st:b/w")


@pytest.mark.parametrize(
    ("found", "written_instead", "message"),
    [
        (
            "[rsync, stream]",
            "[rsink]",
            "no transfer method 'rsink'; the methods are: same-file-system, ",
        ),
        ("transfer: scp", "transfer: []", "it must be a list of methods"),
        ("[rsync, stream]", "[rsync, rsync]", "'rsync' is listed twice"),
        ("direct: forward", "direct: maybe", "write forward or key"),
        ("direct: key, ", "", "'direct_key' without 'direct: key'"),
        ("~/.ssh/id_x", "'~/my key'", "is not a path of a key"),
        ("data.c.org", "me@data.c.org", "is not a host"),
        *(
            ("st:b/w", place, "it must be a remote of rclone and a path")
            for place in (
                "bucket",
                "-v:b",
                "':s3,secret_access_key=x:b'",
                "st:a b",
                "st:$(id)",
                "st:b\\n",
            )
        ),
        ("st:b/w", "st:b/../w", "its path cannot have '..'"),
        (", transfer: scp", "", "neither 'bandwidth' nor 'latency'"),
        ("here: {slots: 1", "here: {slots: 1, direct: key", "of kind local, which has no 'direct'"),
    ],
)
def test_mistakes_in_keys_of_transfers(
    tmp_path: Path, found: str, written_instead: str, message: str
) -> None:
    assert found in TRANSFERS
    with pytest.raises(InvalidError, match=message):
        read_catalog(written(tmp_path, TRANSFERS.replace(found, written_instead)))
