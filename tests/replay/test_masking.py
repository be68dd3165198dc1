"""Records and frames for other people: without the keys in them, otherwise the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from scrubjay.replay.exports.masking import mask_placed, mask_records
from scrubjay.replay.frame import Frame
from scrubjay.screen.ghostty import Terminal
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json, encode_size, encode_typed
from scrubjay.tape.record import Record
from scrubjay.tape.redaction import veil
from tests.support.canaries import make_canaries
from tests.support.tables import every_row

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
HIDDEN = "ghp_" + veil(36)


def _record(at: int, kind: Kind, payload: bytes) -> Record:
    return Record(at * 100, kind, at, payload, 0)


def _shown(records: list[Record]) -> str:
    return b"".join([record.payload for record in records if record.kind == Kind.OUTPUT]).decode()


def _typed(records: list[Record]) -> str:
    return b"".join([record.typed().data for record in records if record.kind == Kind.INPUT]).decode()


def test_a_key_is_hidden_wherever_records_cut_it_and_whatever_stands_between() -> None:
    text = f"a {TOKEN} b".encode()
    for cut in range(len(text)):
        records = [
            _record(1, Kind.OUTPUT, text[:cut]),
            _record(2, Kind.RESIZE, encode_size(80, 24)),
            _record(3, Kind.INPUT, encode_typed(text[: cut // 2], "ann", hidden=False)),
            _record(4, Kind.OUTPUT, text[cut:]),
            _record(5, Kind.INPUT, encode_typed(text[cut // 2 :], "ann", hidden=False)),
        ]

        masked = list(mask_records(records))

        assert [(record.at, record.kind, record.offset) for record in masked] == [
            (record.at, record.kind, record.offset) for record in records
        ]
        for kept in (_shown(masked), _typed(masked)):
            assert TOKEN not in kept
            assert kept.startswith("a ghp_")
            assert kept.endswith(" b")
            assert len(kept) == len(text)


def test_a_key_that_is_coloured_in_parts_is_hidden_in_all_of_them() -> None:
    text = f"{TOKEN[:20]}\x1b[31m{TOKEN[20:]}\x1b[0m".encode()

    (masked,) = mask_records([_record(1, Kind.OUTPUT, text)])

    assert TOKEN[10:20] not in masked.payload.decode()
    assert TOKEN[20:] not in masked.payload.decode()
    assert len(masked.payload.decode()) == len(text)


def test_keys_in_what_was_noted_are_hidden_too() -> None:
    head = _record(0, Kind.HEAD, encode_json(argv=["curl", "-H", f"Authorization: Bearer {TOKEN}"], cols=80))
    mark = _record(1, Kind.MARK, encode_json(label=f"used {TOKEN}", author="ann"))
    exit_ = _record(2, Kind.EXIT, encode_json(status=0))

    masked = list(mask_records([head, mark, exit_]))

    assert masked[0].json()["cols"] == 80
    assert TOKEN not in str(masked[0].json())
    assert masked[1].json() == {"label": f"used {HIDDEN}", "author": "ann"}
    assert masked[2] is exit_


def test_what_was_typed_while_it_was_hidden_stays_a_length() -> None:
    record = _record(1, Kind.INPUT, encode_typed(b"secret", "ann", hidden=True))

    assert list(mask_records([record])) == [record]


def test_thousands_of_small_records_hide_every_key() -> None:
    rng = Random(3)
    canaries = make_canaries()
    text = "\r\n".join([rng.choice(canaries).printed.replace("\n", "\r\n") for _ in range(600)]).encode()
    records: list[Record] = []
    at = start = 0
    while start < len(text):
        size = rng.choice((1, 5, 60, 700))
        records.append(_record(at, Kind.OUTPUT, text[start : start + size]))
        start, at = start + size, at + 1

    placed = list(mask_placed((record.at, record) for record in records))

    shown = _shown([record for _, record in placed])
    assert all(place == record.at for place, record in placed)
    assert len(shown) == len(text)
    assert not [secret for canary in canaries for secret in canary.secrets if secret in shown]


@every_row("portion", [1, 7, 20, 40])
@every_row("flood", [(64 << 10) - 8, 64 << 10, 100 << 10])
def test_a_key_that_begins_at_the_end_of_a_flood_is_hidden(flood: int, portion: int) -> None:
    text = b"x" * flood + f"\r\n{TOKEN}\r\n".encode() + b"y" * flood
    start = flood + 2 + 10
    cuts = [0, *range(start, start + 40, portion), start + 40, len(text)]
    records = [_record(at, Kind.OUTPUT, text[one:other]) for at, (one, other) in enumerate(pairwise(cuts))]

    masked = list(mask_records(records))

    key = _shown(masked)[flood + 2 :][: len(TOKEN)]
    assert _shown(masked) == text.decode().replace(TOKEN, key)
    assert not any(TOKEN[at : at + 3] in key.removeprefix("ghp_") for at in range(4, len(TOKEN) - 3))
    assert [len(record.payload.decode()) for record in masked] == [len(record.payload) for record in records]


def test_a_flood_is_not_kept_until_its_end() -> None:
    taken = 0

    def flood() -> Iterator[Record]:
        nonlocal taken
        for taken in range(100):
            yield _record(taken, Kind.OUTPUT, b"x" * (64 << 10))

    next(mask_records(flood()))

    assert taken < 5


def test_bytes_that_hold_no_key_are_the_same_bytes() -> None:
    records = [_record(at, Kind.OUTPUT, Random(at).randbytes(500)) for at in range(300)]

    assert list(mask_records(records)) == records


def test_a_frame_for_other_people_has_no_keys() -> None:
    terminal = Terminal(80, 4)
    terminal.feed(f"key {TOKEN}".encode())
    snapshot = terminal.snapshot(history=False)
    terminal.close()
    assert snapshot is not None
    frame = Frame("tape", 1, 2, 3, None, 80, 4, snapshot=snapshot)

    masked = frame.masked()

    assert masked.picture.lines[0].text == f"key {HIDDEN}"
    assert masked.state is not None
    assert masked.state.picture().lines[0].text == f"key {HIDDEN}"
    assert (masked.tape, masked.at, masked.offset, masked.time) == ("tape", 1, 2, 3)
    assert frame.picture.lines[0].text == f"key {TOKEN}"


def test_a_frame_of_text_alone_has_none_either() -> None:
    frame = Frame("tape", 1, 2, 3, None, 80, 4, text=f"key {TOKEN}")

    assert frame.masked().text == f"key {HIDDEN}"
    assert frame.masked().picture.lines[0].text == f"key {HIDDEN}"
