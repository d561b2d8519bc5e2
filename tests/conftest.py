"""For all tests: property tests draw the same examples every time, so that a failure repeats.

``HYPOTHESIS_PROFILE=explore`` draws others at every run.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeat", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))
