"""The shape of the project: who may import whom, which code does no I/O, and what tests may not do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT

_SOURCE = ROOT / "src" / "scrubjay"
_TESTS = ROOT / "tests"

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


# Where tests take what they share from, besides their own suite.
_SHARED = frozenset({"support", "programs"})
# Programs sleep as the agents do that they stand for, and real agents take the time they take.
_MAY_SLEEP = frozenset({"programs", "real_agents"})
_LONG_SLEEP_S = 0.1


@cache
def _sources() -> list[Path]:
    return sorted(_SOURCE.rglob("*.py"))


def _test_sources() -> Iterator[tuple[str, Path]]:
    """Every module under tests/, with its suite."""
    for path in sorted(_TESTS.rglob("*.py")):
        parts = path.relative_to(_TESTS).parts
        if "node_modules" not in parts:
            yield (parts[0] if len(parts) > 1 else ""), path


@cache
def _imports(path: Path) -> frozenset[str]:
    """Full names of the modules a file imports, wherever in the file it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            module = node.module or ""
            found.update(f"{module}.{alias.name}" if module == "scrubjay" else module for alias in node.names)
    return frozenset(found)


def test_imports_only_go_up() -> None:
    offenders: list[str] = []
    for path in _sources():
        room = path.relative_to(_SOURCE).parts[0].removesuffix(".py")
        allowed = _MAY_IMPORT.get(room)
        if allowed is None:
            allowed = frozenset({"cli"}) if room == "__main__" else _MODULES
        imported = {name.split(".")[1] for name in _imports(path) if name.startswith("scrubjay.")}
        imported -= {"__version__", "__file__", room}
        offenders += [f"{path.relative_to(_SOURCE)} imports {name}" for name in sorted(imported - allowed)]

    assert not offenders, "\n".join(offenders)


def test_the_core_does_no_io() -> None:
    pure = [path for path in _sources() if str(path.relative_to(_SOURCE)).startswith(_PURE)]
    offenders = [
        f"{path.relative_to(_SOURCE)} imports {name}"
        for path in pure
        for name in sorted({name.split(".")[0] for name in _imports(path)} & _DOES_IO)
    ]

    assert not offenders, "\n".join(offenders)


def test_every_listed_pure_module_that_should_exist_does() -> None:
    assert [name for name in _PURE if not (_SOURCE / name).exists()] == []


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


def test_a_suite_shares_with_others_through_support_only() -> None:
    offenders = [
        f"{path.relative_to(_TESTS)} imports {name}"
        for suite, path in _test_sources()
        for name in sorted(_imports(path))
        if name.startswith("tests.") and name.split(".")[1] not in {suite, *_SHARED}
    ]

    assert not offenders, "\n".join(offenders)


def test_no_test_sleeps_without_saying_why() -> None:
    """A sleep is too short on a busy machine and too long on an idle one: wait for a condition."""
    offenders = [
        f"{path.relative_to(_TESTS)}:{number}: {line.strip()}"
        for suite, path in _test_sources()
        if suite not in _MAY_SLEEP
        for number, line in _unexplained_sleeps(path.read_text())
    ]

    assert not offenders, "\n".join(offenders)


def _unexplained_sleeps(source: str) -> Iterator[tuple[int, str]]:
    """Lines with a constant sleep that is long and has no comment, neither behind it nor above it."""
    if "sleep" not in source:
        return
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not _sleeps_long(node):
            continue
        line, above = lines[node.lineno - 1], lines[node.lineno - 2].strip()
        if "#" not in line and not above.startswith("#"):
            yield node.lineno, line


def _sleeps_long(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    seconds = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    return name.split(".")[-1] == "sleep" and isinstance(seconds, int | float) and seconds >= _LONG_SLEEP_S
