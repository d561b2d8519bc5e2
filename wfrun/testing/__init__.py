"""Conformance suites, which every implementation of a protocol passes, and worlds for tests.

``FakeView``, which this module exports, is a view to test placement policies with; it needs no
pytest. ``AnySiteConformance`` is in ``wfrun.testing.any_site``; ``SiteConformance`` in
``wfrun.testing.sites`` adds what sites with real processes and files have to do.
``TransferConformance`` is in ``wfrun.testing.transfers``. Subclass a suite in a test module, with
a name that begins with ``Test``, override its factory methods, and run pytest with pytest-asyncio.
"""

from wfrun.testing.fake_view import FakeView

__all__ = ["FakeView"]
