"""The shape of the project: who may import whom, and which code does no I/O."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parent.parent / "src" / "scrubjay"

# Bytes go down this list, imports go up it.
_MODULES = frozenset({"errors", "ids", "clock", "settings", "unix_sockets", "query"})
_MAY_IMPORT: dict[str, frozenset[str]] = {
    "tape": _MODULES,
    "screen": _MODULES | {"tape"},
    "replay": _MODULES | {"tape", "screen"},
    "status": _MODULES | {"tape", "screen"},
    "fleet": _MODULES | {"status"},
    "wire": _MODULES | {"tape", "status", "fleet"},
    "store": _MODULES | {"tape", "fleet"},
    "keeper": _MODULES | {"tape"},
    "pods": _MODULES | {"tape", "keeper"},
    "agents": _MODULES | {"status"},
    "hook": _MODULES,
    "runner": _MODULES | {"tape", "screen", "replay", "status", "wire", "keeper", "pods", "agents"},
    "server": _MODULES | {"tape", "screen", "replay", "fleet", "wire", "store"},
    "cli": _MODULES
    | {"tape", "screen", "replay", "status", "fleet", "wire", "store", "keeper", "pods", "runner", "server"}
    | {"agents", "hook"},
}
_PURE = (
    "errors.py",
    "tape/format.py",
    "tape/payload.py",
    "tape/record.py",
    "tape/redaction.py",
    "tape/sealed.py",
    "tape/stream.py",
    "tape/asciicast.py",
    "keeper/protocol.py",
    "keeper/answers.py",
    "keeper/detach.py",
    "keeper/environment.py",
    "keeper/events.py",
    "keeper/recorder.py",
    "keeper/secrets.py",
    "keeper/replies.py",
    "cli/keys.py",
    "cli/modes.py",
    "cli/inert.py",
    "cli/service_unit.py",
    "cli/topology_views.py",
    "replay/frame.py",
    "tape/typed.py",
    "replay/instants.py",
    "query.py",
    "replay/rows.py",
    "replay/exports/masking.py",
    "server/origins.py",
    "agents/codex_hooks.py",
    "agents/launch.py",
    "agents/manifest.py",
    "screen",
    "status",
    "fleet",
    "wire",
)
_DOES_IO = frozenset(
    {"asyncio", "fcntl", "glob", "io", "multiprocessing", "os", "pathlib", "pty", "random", "select", "selectors"}
    | {"shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "termios", "threading", "time", "tty"}
)


def _sources() -> list[Path]:
    return sorted(_SOURCE.rglob("*.py"))


def _imports(path: Path) -> set[str]:
    """Full names of the modules a file imports, wherever in the file it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            module = node.module or ""
            found.update(f"{module}.{alias.name}" if module == "scrubjay" else module for alias in node.names)
    return found


@pytest.mark.parametrize("path", _sources(), ids=lambda path: str(path.relative_to(_SOURCE)))
def test_imports_only_go_up(path: Path) -> None:
    room = path.relative_to(_SOURCE).parts[0].removesuffix(".py")
    allowed = _MAY_IMPORT.get(room)
    if allowed is None:
        allowed = frozenset({"cli"}) if room == "__main__" else _MODULES

    imported = {name.split(".")[1] for name in _imports(path) if name.startswith("scrubjay.")}
    imported -= {"__version__", "__file__", room}

    assert imported <= allowed


def _pure_sources() -> list[Path]:
    return [path for path in _sources() if str(path.relative_to(_SOURCE)).startswith(_PURE)]


@pytest.mark.parametrize("path", _pure_sources(), ids=lambda path: str(path.relative_to(_SOURCE)))
def test_the_core_does_no_io(path: Path) -> None:
    assert not {name.split(".")[0] for name in _imports(path)} & _DOES_IO


def test_every_listed_pure_module_that_should_exist_does() -> None:
    for name in _PURE:
        if name.endswith(".py"):
            assert (_SOURCE / name).is_file()


def test_one_module_knows_the_terminal_engine_and_only_screen_workers_load_it() -> None:
    knows = [path for path in _sources() if any(name.startswith("pyghostty") for name in _imports(path))]
    loads = [
        path
        for path in _sources()
        if any(name in ("scrubjay.screen.ghostty", "scrubjay.screen") for name in _imports(path))
        and "ghostty" in path.read_text()
    ]

    assert [str(path.relative_to(_SOURCE)) for path in knows] == ["screen/ghostty.py"]
    assert [str(path.relative_to(_SOURCE)) for path in loads] == ["replay/worker.py"]
