"""Run the command line with other values for some of its times, so that a test need not wait for them.

``python -P timed_scrubjay.py TIMES WORD...``, where TIMES is a JSON object: ``{"scrubjay.module.NAME": SECONDS}``.
"""

from __future__ import annotations

import importlib
import json
import sys

from scrubjay.cli import main


def set_times(times: dict[str, float]) -> None:
    """Change constants; AttributeError for one that does not exist."""
    for path, seconds in times.items():
        module_name, _, name = path.rpartition(".")
        module = importlib.import_module(module_name)
        getattr(module, name)
        setattr(module, name, seconds)


if __name__ == "__main__":
    set_times(json.loads(sys.argv.pop(1)))
    main()
