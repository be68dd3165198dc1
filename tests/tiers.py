"""How long a test may take: tier P runs with every change, tier N every night."""

from __future__ import annotations

import os


def sized(p: int, n: int) -> int:
    """``p`` normally, ``n`` at night (``SCRUBJAY_TIER=N``)."""
    return n if os.environ.get("SCRUBJAY_TIER") == "N" else p
