"""There is a keeper for every pod, so it loads little and nothing of others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import scrubjay
from tests.support.fleet import Fleet
from tests.support.processes import resident_kib

_SOURCE = Path(scrubjay.__file__).parent.parent
_LOAD = f"import sys; sys.path.insert(0, {str(_SOURCE)!r}); import scrubjay.keeper.start; print(*sys.modules)"


def _loaded() -> set[str]:
    argv = [sys.executable, "-I", "-S", "-c", _LOAD]
    return set(subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split())


def test_a_keeper_loads_nothing_but_the_standard_library() -> None:
    tops = {name.partition(".")[0] for name in _loaded()} - {"scrubjay", "__main__"}

    assert tops <= sys.stdlib_module_names


def test_a_keeper_loads_nothing_heavy() -> None:
    heavy = {"asyncio", "dataclasses", "hashlib", "inspect", "pathlib", "re", "ssl", "subprocess", "typing"}

    # json needs re, and a keeper needs json.
    assert _loaded() & heavy <= {"re"}


def test_a_keeper_loads_only_its_own_part_of_scrubjay() -> None:
    ours = {".".join(name.split(".")[:2]) for name in _loaded() if name.startswith("scrubjay.")}

    assert ours == {"scrubjay.clock", "scrubjay.errors", "scrubjay.keeper", "scrubjay.tape"}


def test_a_running_keeper_has_no_foreign_library_and_stays_below_16_mb(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")

    mapped = Path(f"/proc/{member.keeper_pid}/maps").read_text()

    assert "site-packages" not in mapped
    assert resident_kib(member.keeper_pid) < 16_000
