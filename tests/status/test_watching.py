"""A recording walked through, and the same one live."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from scrubjay.agents.library import Library
from scrubjay.agents.status_rules import rules_for
from scrubjay.replay.shown import ShownTerminal
from scrubjay.replay.workers import Workers
from scrubjay.screen.glance import Glance
from scrubjay.status.detector import Detector
from scrubjay.status.rows import decode_change, encode_change
from scrubjay.status.watching import Change, Watching, watch_recording
from scrubjay.tape.asciicast import read_cast
from scrubjay.tape.cast_import import cast_records
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json, encode_typed
from scrubjay.tape.record import Record
from tests.support.corpus import recording
from tests.support.tables import every_row

_Walk = Callable[[str], list[Change]]


@pytest.fixture(scope="module")
def walk() -> Iterator[_Walk]:
    """Walk through the recording of a name, and return the changes."""
    with Workers() as workers:
        yield lambda name: _walk(name, workers)


def _walk(name: str, workers: Workers) -> list[Change]:
    changes: list[Change] = []
    cast = read_cast(recording(name).cast.splitlines(keepends=True), name)
    rules = rules_for(name.split("-")[0], Library(None))
    terminal = ShownTerminal(workers)
    watch_recording(cast_records(cast), terminal, Detector(rules), changes.append)
    terminal.close()
    return changes


def test_a_turn_is_idle_work_a_permission_work_and_idle(walk: _Walk) -> None:
    changes = walk("claude-turn-ghostty")

    told = [change.verdict.activity for change in changes]
    assert told[-5:] == ["idle", "executing", "waiting", "executing", "idle"]
    asked = next(change for change in changes if change.verdict.activity == "waiting")
    assert asked.verdict.waiting_for == "person:permission"
    assert asked.verdict.detail is not None
    assert asked.verdict.detail.startswith("approve Bash: touch m.start")
    assert "program" in {claim.source for claim in asked.verdict.agreeing}


def test_the_same_recording_always_gives_the_same(walk: _Walk) -> None:
    assert walk("opencode-question") == walk("opencode-question")


@every_row("name", ["claude-turn-ghostty", "aider-turn", "codex-err401-final"])
def test_a_status_is_kept_and_read_again(walk: _Walk, name: str) -> None:
    for change in walk(name):
        assert decode_change(encode_change(change)) == change


@every_row("row", [{}, {"at": 1}, {"at": 1, "offset": 2, "activity": "dancing"}, {"activity": "idle"}])
def test_what_is_no_status_is_none(row: dict[str, object]) -> None:
    assert decode_change(row) is None


def test_hooks_and_keys_on_the_tape_count_and_answers_of_a_terminal_do_not() -> None:
    changes: list[Change] = []
    rules = rules_for("claude", Library(None))
    watching = Watching(Detector(rules), glance=lambda: Glance(()), changed=changes.append)

    def add(at: int, kind: Kind, payload: bytes) -> None:
        watching.pass_time(at)
        record = Record(at, kind, at, payload, 0)
        watching.recorded(kind, at, payload, record.end)

    add(10, Kind.EVENT, encode_json(event="PermissionRequest", source="claude", seq=1, tool="Bash"))
    add(20, Kind.INPUT, encode_typed(b"hello\r", "terminal", hidden=False, answers=5))
    add(30, Kind.EVENT, encode_json(event="Stop", source="claude", seq=2))
    add(6_000_000, Kind.INPUT, encode_typed(b"go on\r", "person:x", hidden=False))

    assert [change.verdict.activity for change in changes] == ["waiting", "idle"]
