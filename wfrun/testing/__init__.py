"""Conformance suites for implementations of protocols, and worlds for tests.

``FakeView``, which this module exports, is a view for tests of placement policies; it needs no
pytest. ``AnySiteConformance`` in ``wfrun.testing.any_site`` is the suite for all sites.
``SiteConformance`` in ``wfrun.testing.sites`` is the suite for sites with real processes and files.
``TransferConformance`` in ``wfrun.testing.transfers`` is the suite for transfers. To use a suite,
subclass it in a test module under a name that begins with ``Test``, override its factory methods,
and run pytest with pytest-asyncio.
"""

from wfrun.testing.fake_view import FakeView

__all__ = ["FakeView"]
