"""The key ``gridftp`` of catalogs."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import GridFtpServer
from wfrun.sites.catalog import read_catalog


def read(tmp_path: Path, value: str, kind: str = "ssh\n    host: h") -> GridFtpServer | None:
    path = tmp_path / "sites.yaml"
    path.write_text(f"sites:\n  alpha:\n    slots: 1\n    kind: {kind}\n    gridftp: {value}\n")
    access = read_catalog(path).sites[0].access
    assert access is not None
    return access.gridftp


@pytest.mark.parametrize(
    ("value", "url", "root"),
    [
        ("gsiftp://dtn.alpha.org:2811", "gsiftp://dtn.alpha.org:2811", "/"),
        ("ftp://10.0.0.1/", "ftp://10.0.0.1", "/"),
        ("sshftp://me@login.alpha.org", "sshftp://me@login.alpha.org", "/"),
        ("ftp://[::1]:21", "ftp://[::1]:21", "/"),
        ("{url: 'gsiftp://dtn:1', root: //data/}", "gsiftp://dtn:1", "/data"),
    ],
)
def test_servers(tmp_path: Path, value: str, url: str, root: str) -> None:
    assert read(tmp_path, value) == GridFtpServer(url, root)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("dtn.alpha.org", "begins with one of gsiftp://"),
        ("http://dtn.alpha.org", "begins with one of gsiftp://"),
        ("7", "begins with one of gsiftp://"),
        ("ftp://h/data", "without a path; 'root'"),
        ("sshftp://-oProxyCommand=x", "HOST:PORT"),
        ("'sshftp://-l@h'", "'-l' is not a user name"),
        ("sshftp://me:secret@h", "has a password"),
        ("gsiftp://me@h", "takes no user"),
        ("ftp://h:70000", "70000 is not a port"),
        ("{root: /data}", "has no 'url'"),
        ("{url: 'ftp://h', root: data}", "absolute path"),
        ("{url: 'ftp://h', rot: /data}", "has no key 'rot'"),
    ],
)
def test_mistakes(tmp_path: Path, value: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        read(tmp_path, value)


def test_local_sites_have_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="no 'gridftp'"):
        read(tmp_path, "ftp://h", "local")
