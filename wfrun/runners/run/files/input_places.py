"""Where the initial inputs of a workflow are: on this machine, at sites, or at URLs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, File, InputSource, SiteSpec
from wfrun.parsers.file_urls import remote_url, scheme_of, shown_url, url_fault
from wfrun.parsers.input_catalog.entries import InputCatalog
from wfrun.parsers.syntax.limits import CONTROL, cut
from wfrun.runners.run.files.located import folders, local_path, missing_inputs, some


class _Refused(NamedTuple):
    """An input that exists only at URLs that may not be fetched, with one of these URLs."""

    name: str
    url: str
    reason: str
    host: str
    """Host of the URL, which the user could allow; empty if that would not help."""


class InputPlaces:
    """Locates initial inputs, and collects missing inputs for one error."""

    def __init__(
        self,
        places: Sequence[Path],
        folder: Path,
        sites: Catalog,
        settings: Settings,
        catalog: InputCatalog | None,
    ) -> None:
        """``places`` are the folders that are searched for files by name. Relative paths in the
        document are relative to ``folder``. ``catalog`` is the user's replica catalog, whose
        entries replace those of the document."""
        self._places = places
        self._folder = folder
        self._sites = {site.name: site for site in sites.sites}
        self._allow_urls = settings.allow_urls
        self._catalog = catalog
        self._missing: list[tuple[str, str]] = []
        self._refused: list[_Refused] = []

    def locate(self, file: File, *, required: bool) -> File | None:
        """Return the file with its locations: its paths at sites, and either its path and size on
        this machine or the URLs from which it can be fetched. Returns None if no location can be
        used; if the file is ``required``, ``check`` then raises an error. Raises InvalidError if a
        path at a site has control characters."""
        sources, sha256 = self._sources(file)
        there = [self._at_site(source) for source in sources]
        held = tuple(source for source in there if source is not None)
        for source in held:  # programs of the sites get these paths
            if CONTROL.search(source.url):
                raise InvalidError(
                    f"the input file {file.name!r} is at {cut(shown_url(source.url))} of site "
                    f"{source.site}, which has control characters"
                )
        others = [source.url for source, site in zip(sources, there, strict=True) if site is None]
        path = self._path(file.name, others)
        if path is not None:
            size_bytes = path.stat().st_size
            return replace(file, url=str(path), size_bytes=size_bytes, sources=held, sha256=sha256)
        urls = [url for url in others if scheme_of(url) not in ("", "file")]
        refused = [self._refusal(file.name, url) for url in urls]
        usable = [url for url, why in zip(urls, refused, strict=True) if why is None]
        if usable:
            held += tuple(map(InputSource, usable[1:]))
            return replace(file, url=usable[0], sources=held, sha256=sha256)
        if held:
            return replace(file, url=None, sources=held, sha256=sha256)
        if required and urls:
            self._refused += [why for why in refused if why is not None][:1]
        elif required:
            self._missing.append((file.name, others[0] if others else ""))
        return None

    def _sources(self, file: File) -> tuple[Sequence[InputSource], str | None]:
        entry = None if self._catalog is None else self._catalog.find(file.name)
        if entry is not None:
            return entry.sources, entry.sha256 or file.sha256
        if file.sources or file.url is None:
            return file.sources, file.sha256
        return (InputSource(file.url),), file.sha256

    def _at_site(self, source: InputSource) -> InputSource | None:
        """A place in the file system of a site of the run; None for other places."""
        if source.site:
            return source if source.site in self._sites else None
        for site in self._sites.values():
            path = _path_behind(source.url, site)
            if path is not None:
                return InputSource(path, site.name)
        return None

    def _path(self, name: str, urls: Sequence[str]) -> Path | None:
        """The path of a file on this machine, from its URLs or, failing that, by its name in the
        searched folders. None: the file is not on this machine."""
        named = [path for path in map(local_path, urls) if path is not None]
        candidates = [*(self._folder / path for path in named), *(p / name for p in self._places)]
        return next((c.absolute() for c in candidates if c.exists()), None)

    def _refusal(self, name: str, url: str) -> _Refused | None:
        """Why a URL may not be fetched; None if it may."""
        # Imported lazily: few runs fetch files, and the libraries of the schemes take long.
        from wfrun.sites.transfers.urls.source import allowed_hosts

        fault = url_fault(url)
        if fault is not None:
            return _Refused(name, url, f"which {fault}", "")
        host = remote_url(url).host
        if host not in allowed_hosts(self._allow_urls):
            return _Refused(name, url, "from where it is not fetched", host)
        return None

    def check(self, source: str) -> None:
        """Raise InvalidError if required inputs are missing, or exist only at URLs that may not be
        fetched. ``source`` is the document."""
        if self._missing:
            url = self._missing[0][1]
            looked = f"for {url} and {folders(self._places)}" if url else folders(self._places)
            raise missing_inputs([name for name, _ in self._missing], looked, source)
        if not self._refused:
            return
        first, count = self._refused[0], len(self._refused)
        hosts = sorted({each.host for each in self._refused if each.host})
        elsewhere = "--inputs DIR names a folder that has it"
        raise InvalidError(
            f"the input file {first.name!r} is at {shown_url(first.url)}, {first.reason}"
            + (f"; also: {some(each.name for each in self._refused[1:])}" if count > 1 else ""),
            source=source,
            hint=(f"--allow-urls {','.join(hosts)} fetches it; " if hosts else "") + elsewhere,
        )


def _path_behind(url: str, site: SiteSpec) -> str | None:
    """The path in the file system of a site for a URL of the site's GridFTP server; None for other
    URLs."""
    server = None if site.access is None else site.access.gridftp
    if server is None or not url.startswith(f"{server.url}/"):
        return None
    return server.root.rstrip("/") + unquote(url[len(server.url) :])
