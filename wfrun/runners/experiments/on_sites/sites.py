"""Preparation of the sites of a catalog for simulations, and the message about a site that cannot
run simulations."""

from __future__ import annotations

import os
import shlex
import sys
from importlib.metadata import version

import msgspec

from wfrun.engine.fitting.containers import SiteEnvironment
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.engine.tasks.failures import Failure
from wfrun.runners.experiments.on_sites import installation as same
from wfrun.runners.experiments.on_sites import task

_SHOWN_LINES = 4
"""Maximum number of lines of the failed command's output in the message."""


def prepared(catalog: Catalog, parts: list[str]) -> Catalog:
    """The catalog with a command in the prologue of each site that compares the site's installation
    of wfrun with ``parts``. If the command fails, wfrun gives up the site, and its tasks go to
    other sites without using up their retries. A site with a container image for all tasks gets no
    command, because its tasks compare the installation in the image."""
    check = shlex.join(["python3", "-m", same.MODULE, *parts])
    return msgspec.structs.replace(
        catalog, sites=tuple(_prepared(site, check) for site in catalog.sites)
    )


def _prepared(site: SiteSpec, check: str) -> SiteSpec:
    own = site.environment or SiteEnvironment()
    variables = dict(own.variables)
    if site.access is None and "PATH" not in variables:
        # This machine has this installation, whose folder may not be in the PATH of the user.
        variables["PATH"] = (
            f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', os.defpath)}"
        )
    # Tasks whose site has an image for all run in it, and compare the installation there.
    in_image = own.container is not None and own.container.image
    prologue = own.prologue if in_image else (*own.prologue, check)
    environment = msgspec.structs.replace(own, prologue=prologue, variables=variables)
    return msgspec.structs.replace(site, environment=environment)


def refusal(failure: Failure, catalog: Catalog) -> str | None:
    """The message about a site whose python3 has no wfrun or a different one; None: the attempt
    failed for another reason."""
    if same.MODULE not in failure.message and task.MODULE not in failure.message:
        return None
    lines = [line.strip() for line in failure.message.splitlines()[1:] if line.strip()]
    shown = "\n    ".join(lines[-_SHOWN_LINES:]) or "it printed nothing"
    release = version("wfrun")
    where = f"{catalog.source}: " if catalog.source else ""
    return (
        f"{where}site {failure.site} cannot run the simulations: its python3 lacks wfrun, or has "
        f"another one, whose results may differ in the last bit\n"
        f"  tried: python3 -m {same.MODULE}\n"
        f"    {shown}\n"
        f"  Install the same wfrun {release} there with Python {sys.version_info.major}."
        f"{sys.version_info.minor}, and put it into the PATH of tasks in the entry of "
        f"{failure.site}:\n"
        f"    prologue: . ~/wfrun/bin/activate     # made by: python3 -m venv ~/wfrun && "
        f"~/wfrun/bin/pip install SOURCE\n"
        f"  SOURCE is a copy of the source directory of wfrun {release}."
    )
