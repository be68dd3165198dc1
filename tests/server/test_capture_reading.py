"""Tapes are looked through for turns in portions, whatever is between and whatever is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from scrubjay.fleet.turns import Captured, Heard, Underway, hear
from scrubjay.server.sessions import capture
from scrubjay.server.sessions.capture import read_portion
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json
from tests.support.tapes import Content, TapeOnDisk, make_tape

_TURNS = 20


def _contents() -> list[Content]:
    contents: list[Content] = [(Kind.CLOCK, 0, encode_json(wall=1_000, reason="start"))]
    for number in range(_TURNS):
        at = 10_000_000 * number
        told = {"source": "claude", "turn": f"t{number}"}
        contents += [
            (Kind.EVENT, at, encode_json(event="UserPromptSubmit", prompt=f"question {number}", **told)),
            *((Kind.OUTPUT, at + 1, b'{"event": "Stop", "source": "claude"}' * 50) for _ in range(20)),
            (Kind.GAP, at + 2, encode_json(reason="disk full", bytes=10)),
            (Kind.EVENT, at + 3, encode_json(event="terminal.foreground", does="works")),
            (Kind.EVENT, at + 4, encode_json(event="Stop", response=f"answer {number}", **told)),
        ]
    return contents


def _read(tape: TapeOnDisk, kept: int | None = None) -> list[Captured]:
    state, found, offset = Underway(), list[Captured](), 0
    while True:
        portion = read_portion(tape.open(), offset, kept)
        for heard in portion.heard:
            state, turns = hear(state, heard)
            found += turns
        assert portion.offset > offset or not portion.more
        offset = portion.offset
        if not portion.more:
            return found


def _said(found: list[Captured]) -> list[tuple[str, str]]:
    return [(each.turn.prompt, each.turn.response) for each in found]


_ALL = [(f"question {number}", f"answer {number}") for number in range(_TURNS)]


@pytest.mark.parametrize("portion_bytes", [100, 5_000, 1 << 20])
@pytest.mark.parametrize("sealed", [False, True])
def test_in_whatever_portions_it_is_read_all_turns_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portion_bytes: int, *, sealed: bool
) -> None:
    monkeypatch.setattr(capture, "PORTION_BYTES", portion_bytes)
    tape = make_tape(tmp_path, _contents(), segment_bytes=20_000)
    if sealed:
        tape.seal()

    found = _read(tape)

    assert _said(found) == _ALL
    assert [each.begin_wall_us for each in found[:2]] == [1_000, 10_001_000]
    for each in found:
        record = tape.records(each.offset)[0]
        assert (record.json()["response"], record.at) == (each.turn.response, each.at)


def test_what_is_not_synced_is_left_for_later(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, _contents(), closed=False)
    stops = [record for record in tape.records() if record.json().get("event") == "Stop"]

    assert _said(_read(tape, stops[4].end)) == _ALL[:5]
    assert _said(_read(tape, stops[4].end - 1)) == _ALL[:4]


def test_a_record_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, _contents(), closed=False)
    (segment,) = tape.segments()
    whole = segment.read_bytes()

    segment.write_bytes(whole[:-10])
    before = read_portion(tape.open(), 0, None)
    segment.write_bytes(whole)
    after = read_portion(tape.open(), before.offset, None)

    (last,) = [heard for heard in after.heard if isinstance(heard, Heard)]
    assert last.said == f"answer {_TURNS - 1}"


def test_after_damage_it_goes_on(tmp_path: Path) -> None:
    tape = make_tape(tmp_path, _contents())
    stop = [record for record in tape.records() if record.json().get("event") == "Stop"][7]
    (segment,) = tape.segments()
    data = bytearray(segment.read_bytes())
    at = data.index(stop.payload)
    data[at : at + 8] = b"\0" * 8
    segment.write_bytes(data)

    found = _read(tape)

    assert _said(found) == [*_ALL[:7], ("question 7", ""), *_ALL[8:]]
