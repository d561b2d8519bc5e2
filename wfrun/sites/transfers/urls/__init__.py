"""Inputs that are named by URL: one file for each group of schemes, and the registry of schemes.

A new scheme is a function that opens a URL, in a file of its own, one line in ``SCHEMES``, and its
name in `wfrun.parsers.file_urls.FETCHED`.
"""

from __future__ import annotations

from wfrun.sites.transfers.urls.gridftp_source import open_gridftp
from wfrun.sites.transfers.urls.http_source import open_http
from wfrun.sites.transfers.urls.sftp_source import open_sftp
from wfrun.sites.transfers.urls.source import OpenUrl

SCHEMES: dict[str, OpenUrl] = {
    "http": open_http,
    "https": open_http,
    "sftp": open_sftp,
    "gsiftp": open_gridftp,
    "ftp": open_gridftp,
}
