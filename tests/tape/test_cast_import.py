from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from scrubjay.errors import CastError
from scrubjay.tape.asciicast import (
    Cast,
    CastEvent,
    CastHeader,
    CastLines,
    encode_cast_v2,
    encode_cast_v3,
    read_cast,
)
from scrubjay.tape.cast_import import Imported, import_cast
from scrubjay.tape.disk import Folder
from scrubjay.tape.format import PAYLOAD_MAX_BYTES, RECORD_MAX_BYTES, Kind
from scrubjay.tape.reader import Tape
from scrubjay.tape.record import Record
from scrubjay.tape.writer import TapeWriter
from tests.support.paths import FIXTURES
from tests.support.tables import every_row

CASTS = sorted((FIXTURES / "casts").glob("*.cast.gz"))
TAPE = "a" * 26
V1 = b'{"version": 1, "width": 80, "height": 24, "stdout": [[0.25, "a"], [1.5, "b"]]}\n'
V2 = b'{"version": 2, "width": 80, "height": 24}\n'
V3 = b'{"version": 3, "term": {"cols": 80, "rows": 24}}\n'
V2_HEADER = (
    b'{"version": 2, "width": 90, "height": 30, "timestamp": 1700000000, "idle_time_limit": 1.5, "title": "Demo",'
    b' "command": "make \\"all\\"", "env": {"TERM": "xterm", "SHELL": "/bin/sh"}, "theme": {"fg": "#fff"}, "x": [1]}\n'
)
V2_EVERY_CODE = [
    V2_HEADER,
    '[0.000001, "o", "hé✓😀\\u001b[0m\\r\\n"]\n'.encode(),
    b'[0.5, "o", ""]\n',
    b'[1.5, "i", "\\u0003"]\n',
    b'[1.5, "r", "100x50"]\n',
    b'[2.25, "m", "half way"]\n',
    b'[2.25, "m", ""]\n',
    b'[3, "x", "0"]\n',
    b'[99999.999999, "zz", "kept"]\n',
]
V3_HEADER = (
    b'{"version": 3, "term": {"cols": 90, "rows": 30, "type": "xterm", "version": "g 1", "theme": {"fg": "#fff"}},'
    b' "timestamp": 1700000000, "command": "make all", "env": {"SHELL": "/bin/sh"}, "tags": ["a"]}\n'
)
V3_EVERY_CODE = [
    V3_HEADER,
    b'[0.001, "o", "a"]\n',
    b'[0.999, "i", "b"]\n',
    b'[1.000, "r", "100x50"]\n',
    b'[0.000, "m", "here"]\n',
    b'[0.125, "z", "kept"]\n',
    b'[0.125, "x", "130"]\n',
]


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def bring_in(lines: Iterable[bytes], folder: Path, *, accept_truncated: bool = False) -> tuple[Imported, list[Record]]:
    folder.mkdir(parents=True)
    writer = TapeWriter(Folder(str(folder)), TAPE)
    try:
        imported = import_cast(read_cast(lines, "demo.cast", accept_truncated=accept_truncated), writer, name="demo")
    finally:
        writer.close()
    return imported, list(Tape(folder, TAPE).records())


def taken_out(lines: CastLines) -> tuple[CastHeader, list[CastEvent]]:
    return all_of(read_cast(list(lines), "exported"))


def all_of(cast: Cast) -> tuple[CastHeader, list[CastEvent]]:
    return cast.header, list(cast.events)


@every_row("path", [*CASTS, None])
def test_a_version_2_cast_comes_out_of_a_tape_as_it_went_in(path: Path | None, tmp_path: Path):
    lines = V2_EVERY_CODE if path is None else lines_of(path)
    _, records = bring_in(lines, tmp_path / "tape")

    exported = encode_cast_v2(records)

    assert taken_out(exported) == all_of(read_cast(lines, "original"))
    assert exported.replaced == 0


def test_a_version_3_cast_comes_out_of_a_tape_as_it_went_in(tmp_path: Path):
    _, records = bring_in(V3_EVERY_CODE, tmp_path / "tape")

    exported = encode_cast_v3(records)

    assert taken_out(exported) == all_of(read_cast(V3_EVERY_CODE, "original"))
    assert exported.replaced == 0


def test_there_are_real_casts_to_test_with():
    assert len(CASTS) == 3


@pytest.mark.parametrize("path", CASTS, ids=lambda path: path.name)
def test_a_cast_that_went_through_version_3_differs_by_less_than_a_millisecond(path: Path, tmp_path: Path):
    _, original = all_of(read_cast(lines_of(path), "original"))
    _, records = bring_in(lines_of(path), tmp_path / "first")

    _, again = bring_in(encode_cast_v3(records), tmp_path / "second")
    _, found = taken_out(encode_cast_v2(again))

    assert [(event.code, event.data) for event in found] == [(event.code, event.data) for event in original]
    assert all(abs(one.at_us - two.at_us) < 1000 for one, two in zip(found, original, strict=True))


def test_a_cast_becomes_a_head_a_clock_its_events_and_an_end(tmp_path: Path):
    imported, records = bring_in(V3_EVERY_CODE, tmp_path / "tape")

    assert [(record.kind, record.at) for record in records] == [
        (Kind.HEAD, 0),
        (Kind.CLOCK, 0),
        (Kind.OUTPUT, 1000),
        (Kind.INPUT, 1_000_000),
        (Kind.RESIZE, 2_000_000),
        (Kind.MARK, 2_000_000),
        (Kind.EVENT, 2_125_000),
        (Kind.EXIT, 2_250_000),
        (Kind.SEAL, 2_250_000),
    ]
    assert records[1].json() == {"wall": 1_700_000_000_000_000, "reason": "start"}
    assert records[2].payload == b"a"
    assert (records[3].typed().author, records[3].typed().data) == ("import", b"b")
    assert records[4].size() == (100, 50)
    assert records[5].json() == {"label": "here", "author": "import"}
    assert records[6].json() == {"event": "asciicast", "code": "z", "data": "kept"}
    assert records[7].json() == {"status": 130}
    assert records[8].json() == {"reason": "imported"}
    assert imported == Imported(events=6, unknown_events=1, output_bytes=1, last_at=2_250_000, truncated_line=None)


def test_the_head_says_what_the_header_said(tmp_path: Path):
    _, records = bring_in(V3_EVERY_CODE, tmp_path / "tape")

    assert records[0].json() == {
        "format": 1,
        "tape": TAPE,
        "name": "demo",
        "argv": ["make", "all"],
        "cols": 90,
        "rows": 30,
        "wall": 1_700_000_000_000_000,
        "term": "xterm",
        "imported": {
            "version": 3,
            "env": {"SHELL": "/bin/sh"},
            "extra": {"term": {"type": "xterm", "version": "g 1", "theme": {"fg": "#fff"}}, "tags": ["a"]},
        },
    }


def test_a_session_and_a_title_are_in_the_head(tmp_path: Path):
    tmp_path.joinpath("tape").mkdir()
    writer = TapeWriter(Folder(str(tmp_path / "tape")), TAPE)

    import_cast(read_cast(V2_EVERY_CODE, "demo.cast"), writer, name="demo", session="b" * 26)
    writer.close()

    head = next(Tape(tmp_path / "tape", TAPE).records()).json()
    assert (head["session"], head["title"]) == ("b" * 26, "Demo")


def test_everything_is_synced_when_the_import_returns(tmp_path: Path):
    writer = TapeWriter(Folder(str(tmp_path)), TAPE)

    import_cast(read_cast(V2_EVERY_CODE, "demo.cast"), writer, name="demo")

    assert writer.synced == writer.offset == Tape(tmp_path).end
    writer.close()


def test_a_version_1_cast_becomes_output_without_a_clock(tmp_path: Path):
    _, records = bring_in([V1], tmp_path / "tape")

    assert [record.kind for record in records] == [Kind.HEAD, Kind.OUTPUT, Kind.OUTPUT, Kind.SEAL]
    assert records[2].at == 1_750_000
    assert "wall" not in records[0].json()
    assert records[0].json()["argv"] == []


def test_a_theme_survives_the_change_of_version(tmp_path: Path):
    _, from_2 = bring_in(V2_EVERY_CODE, tmp_path / "2")
    _, from_3 = bring_in(V3_EVERY_CODE, tmp_path / "3")

    as_3, _ = taken_out(encode_cast_v3(from_2))
    as_2, _ = taken_out(encode_cast_v2(from_3))

    assert as_3.extra == {"term": {"type": "xterm", "theme": {"fg": "#fff"}}}
    assert (as_3.idle_time_limit, as_3.command) == (1.5, 'make "all"')
    assert as_2.extra == {"theme": {"fg": "#fff"}}
    assert as_2.env == {"TERM": "xterm", "SHELL": "/bin/sh"}


@every_row(
    ("command", "argv"),
    [("sh -c 'echo hi'", ["sh", "-c", "echo hi"]), ("say it's", []), ("", []), ("  ls   -l ", ["ls", "-l"])],
)
def test_a_command_is_split_as_a_shell_does_and_comes_out_as_it_was(command: str, argv: list[str], tmp_path: Path):
    header = f'{{"version": 2, "width": 80, "height": 24, "command": "{command}"}}'.encode()

    _, records = bring_in([header], tmp_path / "tape")

    assert records[0].json()["argv"] == argv
    assert (taken_out(encode_cast_v2(records))[0].command or "") == command


@every_row("status", ["", "1.5", "+1", "007", "1e3", "killed", "9" * 5000, "٣"])
def test_an_exit_that_is_no_status_is_kept_as_it_came(status: str, tmp_path: Path):
    _, records = bring_in([V3, f'[1, "x", "{status}"]\n'.encode()], tmp_path / "tape")

    assert records[1].kind == Kind.EVENT
    assert taken_out(encode_cast_v3(records))[1] == [CastEvent(1_000_000, "x", status)]


@pytest.mark.parametrize("code", ["o", "i"])
def test_an_event_larger_than_a_record_becomes_several(code: str, tmp_path: Path):
    text = "✓" * (PAYLOAD_MAX_BYTES + 1)

    _, records = bring_in([V2, f'[1, "{code}", "{text}"]\n'.encode()], tmp_path / "tape")
    exported = encode_cast_v2(records)
    _, found = taken_out(exported)

    assert len(records) == 6
    assert {record.at for record in records[1:]} == {1_000_000}
    assert "".join(event.data for event in found) == text
    assert exported.replaced == 0


def test_no_more_than_the_window_is_held_in_memory(tmp_path: Path):
    window_bytes = 1 << 20
    writer = TapeWriter(Folder(str(tmp_path)), TAPE, window_bytes=window_bytes, segment_bytes=2 << 20)
    held: list[int] = []

    def lines() -> Iterator[bytes]:
        yield V2
        for second in range(200):
            held.append(writer.offset - writer.synced)
            yield b'[%d, "o", "%s"]\n' % (second, b"x" * 50_000)

    import_cast(read_cast(lines(), "demo.cast"), writer, name="demo")
    writer.close()

    assert max(held) <= window_bytes + RECORD_MAX_BYTES
    assert len(list(tmp_path.glob("*.raw"))) > 1
    assert sum(record.kind == Kind.OUTPUT for record in Tape(tmp_path, TAPE).records()) == 200


@every_row("size", ["", "80", "80x", "x24", "0x24", "80x0", "80x24x1", "-1x5", "80X24", "80x10001", "\uff18x\uff18"])
def test_a_resize_to_no_size_is_an_error_that_names_the_line(size: str, tmp_path: Path):
    with pytest.raises(CastError, match=r"demo\.cast line 3: .* is not a size") as caught:
        bring_in([V2, b"\n", f'[1, "r", "{size}"]\n'.encode()], tmp_path / "tape")

    assert caught.value.hint


@every_row(
    ("first", "last", "size"),
    [
        ([V2], b'[1, "m", "%s"]\n', PAYLOAD_MAX_BYTES),
        ([V2], b'[1, "z", "%s"]\n', PAYLOAD_MAX_BYTES),
        ([], b'{"version": 2, "width": 80, "height": 24, "title": "%s"}\n', PAYLOAD_MAX_BYTES),
        ([], b'{"version": 2, "width": 80, "height": 24, "command": "%s"}\n', 50 * PAYLOAD_MAX_BYTES),
    ],
)
def test_what_fits_no_record_is_an_error_that_names_the_line(
    first: list[bytes], last: bytes, size: int, tmp_path: Path
):
    lines = [*first, last % (b"x" * size)]
    with pytest.raises(CastError, match="and a record holds") as caught:
        bring_in(lines, tmp_path / "tape")

    assert caught.value.line == len(lines)
    assert caught.value.hint


def test_half_a_surrogate_pair_is_kept_in_bytes_and_in_labels(tmp_path: Path):
    lines = [
        b'{"version": 2, "width": 80, "height": 24, "title": "\\ud800", "command": "\\udfff", "t\\ud800": 1}\n',
        b'[1, "o", "a\\ud800b"]\n',
        b'[2, "i", "\\udc00"]\n',
        b'[3, "m", "\\ud800!"]\n',
        b'[4, "\\ud800", "\\udc00"]\n',
        b'[5, "o", "\\ud83d\\ude00"]\n',
    ]

    _, records = bring_in(lines, tmp_path / "tape")

    assert records[1].payload.decode("utf-8", "surrogatepass") == "a\ud800b"
    assert records[2].typed().data.decode("utf-8", "surrogatepass") == "\udc00"
    assert records[3].json()["label"] == "\ud800!"
    assert records[4].json() == {"event": "asciicast", "code": "\ud800", "data": "\udc00"}
    assert records[5].payload == "😀".encode()
    exported = encode_cast_v2(records)
    assert taken_out(exported)[1][0].data == "a\ufffd\ufffd\ufffdb"
    assert exported.replaced == 6


def test_a_torn_cast_is_imported_up_to_there_and_the_tape_says_so(tmp_path: Path):
    lines = [V2, b'[1, "o", "a"]\n', b'[2, "o", "b']

    imported, records = bring_in(lines, tmp_path / "tape", accept_truncated=True)

    assert [record.kind for record in records] == [Kind.HEAD, Kind.OUTPUT, Kind.GAP, Kind.SEAL]
    assert records[2].json() == {"reason": "the cast is cut off in line 3", "bytes": 11, "from": 1_000_000}
    assert imported.truncated_line == 3


def test_a_torn_cast_leaves_a_tape_without_an_end_if_that_is_not_accepted(tmp_path: Path):
    with pytest.raises(CastError, match="line 3: the last line is cut off"):
        bring_in([V2, b'[1, "o", "%s"]\n' % (b"x" * 300_000), b'[2, "o", "b'], tmp_path / "tape")

    assert all(record.kind != Kind.SEAL for record in Tape(tmp_path / "tape", TAPE).records())
