"""How large a test is: ``make test`` shows that a promise holds, ``make chaos`` tries hard, ``TIER=night`` harder.

A module that takes a size from here runs in ``make test`` and in ``make chaos``; ``tests/conftest.py`` sees to it.
"""

from __future__ import annotations

import os
from typing import Literal, cast

Tier = Literal["test", "chaos", "night"]

TIER = cast(Tier, os.environ.get("SCRUBJAY_TIER", "test"))
ALONE = os.environ.get("SCRUBJAY_ALONE") == "1"  #: nothing else runs beside a test, so promises about time are asserted


def sized(test: int, chaos: int, night: int) -> int:
    """The size for the tier that runs."""
    return {"test": test, "chaos": chaos, "night": night}[TIER]
