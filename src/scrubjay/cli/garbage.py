"""When a server's process looks for garbage."""

from __future__ import annotations

import gc

YOUNG_MAX = 50_000  # objects that are made before any is looked at; an answer about a thousand pods is 25,000


def look_seldom() -> None:
    """Leave what was loaded alone for good, and look at what is made since when there is much of it.

    Python would look at everything it has in the middle of every tenth answer about a thousand pods, which makes that
    one three times as late.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_MAX)
