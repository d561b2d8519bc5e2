"""A process that hosts a site and can be killed, for tests of the death of the engine.

python -m wfrun.testing.host MODULE.py CLASS DIRECTORY SLOTS

It makes a site with the method ``make`` of a conformance class, reads requests from stdin as a JSON
array, and submits them. It prints each event as a line of JSON until it is killed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path

import msgspec

from wfrun.engine.events import Event
from wfrun.engine.exchange import AttemptRequest
from wfrun.testing.sites import SiteConformance


def _load(module_path: str, class_name: str) -> SiteConformance:
    spec = importlib.util.spec_from_file_location("conformance_under_test", module_path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    suite = getattr(module, class_name)()
    assert isinstance(suite, SiteConformance)
    return suite


def _print(event: Event) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    sys.stdout.buffer.flush()


async def _host(module_path: str, class_name: str, directory: str, slots: str) -> None:
    site = _load(module_path, class_name).make(Path(directory), int(slots))
    await site.open(_print)
    requests = msgspec.json.decode(sys.stdin.buffer.read(), type=list[AttemptRequest])
    await site.submit(requests)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_host(*sys.argv[1:]))
