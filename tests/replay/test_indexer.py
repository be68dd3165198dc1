"""The walk over a tape: keyframes within their budget, rows once, and going on where it was left."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from scrubjay.replay import indexer
from scrubjay.replay.indexer import Indexer
from scrubjay.replay.keyframes import FILE, Keyframes
from scrubjay.replay.replay import Replay
from scrubjay.replay.rows import Row
from scrubjay.replay.workers import Workers
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json, encode_typed
from tests.support.recordings import WALL_US, cut_up, head, mark, open_replay, output, record_tape, resize
from tests.support.small_disk import mount_small_disk
from tests.support.tables import every_row
from tests.support.tapes import TAPE_ID, TapeOnDisk, begin_tape
from tests.support.tiers import sized

SECOND = 1_000_000


@dataclass
class Progress:
    """How far rows went."""

    offset: int = 0
    state: bytes = b""


@dataclass
class Rows:
    """Rows in memory."""

    kept: list[Row] = field(default_factory=list[Row])
    done: Progress = field(default_factory=Progress)
    _added: list[Row] = field(default_factory=list[Row])

    def progress(self, tape: str) -> Progress:
        return self.done

    def add(self, tape: str, rows: Iterable[tuple[int, int, int, str, str]]) -> None:
        self._added += map(Row._make, rows)

    def finish_batch(self, tape: str, offset: int, state: bytes) -> None:
        self.kept += self._added
        self._added.clear()
        self.done = Progress(offset, state)

    @property
    def texts(self) -> list[str]:
        return [row.text for row in self.kept]


def _index(tape: TapeOnDisk, workers: Workers, rows: Rows | None = None) -> Keyframes:
    keyframes = Keyframes(tape.root, tape.id, workers.identity)
    assert Indexer(tape.open(), workers, keyframes, rows).run()
    return keyframes


def test_there_is_a_keyframe_after_every_resize(tmp_path: Path, workers: Workers) -> None:
    contents = [head(80, 24)]
    for n in range(1, 6):
        contents += [output(n * SECOND, b"some text"), resize(n * SECOND + 1, 80 + n, 24)]
    tape = record_tape(tmp_path / "pod", contents)
    ends = [record.end for record in tape.open().records() if record.kind == Kind.RESIZE]

    keyframes = _index(tape, workers)

    assert set(ends) <= set(keyframes.offsets())


def test_keyframes_stay_within_their_budget_and_never_further_apart_than_a_mebibyte(
    tmp_path: Path, workers: Workers
) -> None:
    rng = Random(1)
    frames = [b"\x1b[H" + b"".join(b"row %d %d\r\n" % (n, rng.random() * 100) for n in range(20)) for _ in range(40)]
    data = b"".join(rng.choices(frames, k=20_000))
    tape = record_tape(
        tmp_path / "pod", [head(80, 24), *(output(n, data[n : n + 4000]) for n in range(0, len(data), 4000))]
    )
    tape.seal()

    keyframes = _index(tape, workers)

    offsets = [0, *keyframes.offsets()]
    assert len(offsets) > 5
    assert max(b - a for a, b in itertools.pairwise(offsets)) < 1.1 * indexer.KEYFRAME_MAX_BYTES
    assert keyframes.covered().kept_bytes < 0.15 * tape.open().stored_bytes


def test_walking_on_gives_the_same_as_walking_at_once(tmp_path: Path, workers: Workers) -> None:
    rng = Random(2)
    lines = b"".join(b"line number %d\r\n" % n for n in range(3000))
    contents = [head(60, 10), *cut_up(rng, lines)]
    at_once, in_parts = Rows(), Rows()
    whole = record_tape(tmp_path / "whole", contents)
    keyframes = _index(whole, workers, at_once)

    writer = begin_tape(tmp_path / "parts")
    parts = TapeOnDisk(tmp_path / "parts", whole.id)
    for number, (kind, at, payload) in enumerate(contents):
        writer.append(kind, at, payload)
        if number % 300 == 250:
            writer.sync()
            _index(parts, workers, in_parts)
    writer.append(Kind.SEAL, contents[-1][1], encode_json(reason="exit"))
    writer.sync()
    writer.close()
    again = _index(parts, workers, in_parts)

    assert again.covered() == keyframes.covered()
    assert sorted(set(in_parts.texts)) == sorted(set(at_once.texts))
    assert len(in_parts.texts) == len(set(in_parts.texts))


def test_every_line_of_a_log_is_taken_once_with_an_offset_near_it(tmp_path: Path, workers: Workers) -> None:
    rng = Random(3)
    lines = b"".join(b"line number %d\r\n" % n for n in range(2000))
    tape = record_tape(tmp_path / "pod", [head(80, 24), *cut_up(rng, lines)])
    rows = Rows()

    _index(tape, workers, rows)

    # Where the recording paused within a line, what stood there of it was taken too.
    whole = [text for text in rows.texts if text in {f"line number {n}" for n in range(2000)}]
    assert sorted(whole) == sorted(f"line number {n}" for n in range(2000))


@every_row("cols", [20, 120, 1000])
@every_row("portion", [500, 60_000])
def test_short_lines_are_taken_before_the_terminal_forgets_them(
    tmp_path: Path, workers: Workers, cols: int, portion: int
) -> None:
    words = [f"{n:x}" for n in range(30_000)]
    lines = "".join(f"{word}\r\n" for word in words).encode()
    contents = [output(n, lines[n : n + portion]) for n in range(0, len(lines), portion)]
    rows = Rows()
    _index(record_tape(tmp_path / "pod", [head(cols, 24), *contents]), workers, rows)

    assert sorted(rows.texts) == sorted(words)


def test_a_line_of_a_flood_is_on_the_screen_at_its_offset(tmp_path: Path, workers: Workers) -> None:
    rng = Random(7)
    lines = b"".join(b"line %d %s\r\n" % (n, b"x" * rng.randrange(50)) for n in range(20_000))
    flood = [output(1000 + n, lines[n : n + 65_000]) for n in range(0, len(lines), 65_000)]
    tape = record_tape(tmp_path / "pod", [head(80, 24), *flood])
    rows = Rows()
    _index(tape, workers, rows)
    replay = open_replay(tape, workers)
    replay.index()

    assert len(rows.kept) == 20_000
    for row in rng.sample(rows.kept, 60):
        assert row.text in [line.text for line in replay.seek_offset(row.offset).picture.lines], row


def test_a_row_on_the_screen_is_shown_by_the_frame_at_its_offset(tmp_path: Path, workers: Workers) -> None:
    contents = [head(80, 24)]
    for n in range(20):
        contents.append(
            output(n * SECOND, b"\x1b[2J\x1b[%d;5Hscreen %s" % (n % 20 + 1, b"abcdefghijklmnopqrst"[n : n + 1] * 4))
        )
    tape = record_tape(tmp_path / "pod", contents)
    rows = Rows()
    _index(tape, workers, rows)
    replay = open_replay(tape, workers)

    assert len(rows.kept) == 20
    for row in rows.kept:
        assert replay.seek_offset(row.offset).picture.lines[row.y].text.strip() == row.text.strip()


def test_what_was_typed_is_taken_and_what_was_hidden_is_not(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(
        tmp_path / "pod",
        [
            head(80, 24),
            (int(Kind.INPUT), 10, encode_typed(b"fix the tesst", "ann", hidden=False)),
            (int(Kind.INPUT), 20, encode_typed(b"\x7f\x7ft\x1b[A\r", "ann", hidden=False)),
            (int(Kind.INPUT), 30, encode_typed(b"secret\r", "ann", hidden=True)),
            output(40, b"x"),
        ],
    )
    rows = Rows()
    _index(tape, workers, rows)

    typed = [row for row in rows.kept if row.kind == "typed"]
    assert [row.text for row in typed] == ["fix the test"]
    assert typed[0].at == 20


def test_rows_that_are_erased_from_the_history_were_taken_before(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(
        tmp_path / "pod",
        [
            head(80, 4),
            output(1, b"".join(b"first %d\r\n" % n for n in range(10))),
            output(2, b"\x1b[2J\x1b[3J\x1b[H"),
            output(3, b"".join(b"second %d\r\n" % n for n in range(10))),
        ],
    )
    rows = Rows()
    _index(tape, workers, rows)

    assert {f"second {n}" for n in range(7)} <= set(rows.texts)
    assert {f"first {n}" for n in range(6)} <= set(rows.texts)


def test_rows_and_what_erases_them_may_come_in_one_record(tmp_path: Path, workers: Workers) -> None:
    burst = b"".join(b"gone %d\r\n" % n for n in range(300)) + b"\x1b[2J\x1b[3J\x1b[Hclear"
    tape = record_tape(tmp_path / "pod", [head(80, 24), output(1, burst)])
    rows = Rows()
    _index(tape, workers, rows)

    assert {f"gone {n}" for n in range(277)} <= set(rows.texts)


def test_the_last_screen_of_a_recording_that_is_over_is_taken_at_once_though_its_tape_has_no_end(
    tmp_path: Path, workers: Workers
) -> None:
    writer = begin_tape(tmp_path / "pod")
    for content in (head(80, 24), output(1000, b"last words")):
        writer.append(*content)
    writer.sync()
    writer.close()
    tape, rows = TapeOnDisk(tmp_path / "pod", TAPE_ID), Rows()
    indexer = Indexer(tape.open(), workers, Keyframes(tape.root, tape.id, workers.identity), rows)

    assert indexer.run(now_us=WALL_US + 1001, over=True)

    assert rows.texts == ["last words"]


def test_a_row_that_stands_on_a_live_screen_is_taken_when_it_has_stood_long_enough(
    tmp_path: Path, workers: Workers
) -> None:
    writer = begin_tape(tmp_path / "pod")
    for content in (head(80, 24), output(1000, b"still here")):
        writer.append(*content)
    writer.sync()
    tape, rows = TapeOnDisk(tmp_path / "pod", TAPE_ID), Rows()
    keyframes = Keyframes(tape.root, tape.id, workers.identity)
    soon = Indexer(tape.open(), workers, keyframes, rows)
    assert soon.run(now_us=WALL_US + 50_000)
    at_first = list(rows.texts)
    later = Indexer(tape.open(), workers, keyframes, rows)
    assert later.run(now_us=WALL_US + 10 * SECOND)
    writer.close()

    assert at_first == []
    assert rows.texts == ["still here"]


def test_marks_clocks_idle_stretches_and_activity_are_kept(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(
        tmp_path / "pod",
        [
            head(80, 24),
            output(SECOND, b"a" * 100),
            mark(2 * SECOND, "here"),
            output(20 * SECOND, b"b" * 50),
            (int(Kind.CLOCK), 21 * SECOND, encode_json(wall=5, reason="jump", step=-9)),
            (int(Kind.CLOCK), 22 * SECOND, encode_json(wall=9, reason="minute")),
        ],
    )

    keyframes = _index(tape, workers)

    assert keyframes.covered().marks == [(2 * SECOND, "here", "ann")]
    assert [wall for _, wall in keyframes.covered().clocks][1:] == [5]
    assert keyframes.covered().idle == [(SECOND, 20 * SECOND)]
    assert sum(keyframes.covered().activity.counts) == 150


def test_a_label_that_is_not_unicode_is_kept_as_far_as_it_is(tmp_path: Path, workers: Workers) -> None:
    label = (int(Kind.MARK), 1, b'{"label":"odd \\ud800","author":7}')
    tape = record_tape(tmp_path / "pod", [head(80, 24), label, output(2, b"x")])

    assert _index(tape, workers).covered().marks == [(1, "odd ?", "")]


def test_a_gap_in_the_recording_is_a_hole_in_the_screens(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(
        tmp_path / "pod",
        [head(80, 24), output(1, b"a"), (int(Kind.GAP), 2, encode_json(reason="disk full", bytes=9)), output(3, b"b")],
    )
    keyframes = _index(tape, workers)
    replay = open_replay(tape, workers)

    assert [hole.why for hole in keyframes.covered().holes] == ["output was not recorded: disk full"]
    assert "disk full" in (replay.seek(3).doubtful or "")
    assert replay.seek(1).doubtful is None


def test_deleting_the_index_loses_nothing(tmp_path: Path, workers: Workers) -> None:
    rng = Random(4)
    tape = record_tape(tmp_path / "pod", [head(80, 24), *cut_up(rng, b"some output \x1b[31mred\r\n" * 3000)])
    first = _index(tape, workers)
    before, offsets = first.covered(), first.offsets()
    first.clear()

    again = _index(tape, workers)

    assert (again.covered(), again.offsets()) == (before, offsets)


def test_whatever_rots_in_the_index_the_screens_are_the_same(tmp_path: Path, workers: Workers) -> None:
    rng = Random(9)
    lines = b"".join(b"\x1b[3%dmline %d\r\n" % (n % 8, n) for n in range(30_000))
    contents = cut_up(rng, lines)
    contents.insert(len(contents) // 2, mark(contents[len(contents) // 2][1], "here"))
    tape = record_tape(tmp_path / "pod", [head(80, 24), *contents])
    intact = open_replay(tape, workers)
    intact.index()
    instants = [rng.randrange(intact.duration) for _ in range(5)]
    expected = [intact.seek(at).picture for at in instants], intact.marks()
    intact.close()
    path = tape.root / FILE
    kept = path.read_bytes()

    for _ in range(sized(15, 60, 2000)):
        path.write_bytes(_rot(rng, kept))
        replay = open_replay(tape, workers)
        replay.index()
        assert ([replay.seek(at).picture for at in instants], replay.marks()) == expected
        replay.close()


def _rot(rng: Random, kept: bytes) -> bytes:
    data = bytearray(kept)
    for _ in range(rng.choice((1, 5, 50))):
        start = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[start] ^= 1 << rng.randrange(8)
            case 1:
                data[start : start + 100] = rng.randbytes(min(100, len(data) - start))
            case 2:
                data[start : start + 512] = bytes(min(512, len(data) - start))
            case _:
                page, other = start // 512 * 512, rng.randrange(len(kept) // 512) * 512
                data[page : page + 512] = kept[other : other + 512]
    return bytes(data) if rng.random() < 0.8 else bytes(data[: rng.randrange(len(data))])


@pytest.mark.needs("mount")
@pytest.mark.parametrize("leave_kib", [0, 100])
def test_a_full_disk_keeps_nobody_from_looking(tmp_path: Path, workers: Workers, leave_kib: int) -> None:
    rng = Random(8)
    lines = b"".join(b"line %d %s\r\n" % (n, rng.randbytes(20).hex().encode()) for n in range(60_000))
    contents = [head(80, 24), *(output(n, lines[n : n + 4000]) for n in range(0, len(lines), 4000))]
    tape = record_tape(tmp_path / "pod", contents)
    with mount_small_disk(tmp_path / "disk", size="1m") as disk:
        disk.fill(leave_bytes=leave_kib << 10)
        keyframes = Keyframes(disk.path, tape.id, workers.identity)
        replay = Replay(tape.open(), keyframes, workers)
        replay.index()

        assert "line 59999" in replay.seek(10**9).picture.text
        assert len(keyframes.offsets()) > 5  # in memory
        keyframes.close()


def test_a_folder_that_cannot_be_written_keeps_nobody_from_looking(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(tmp_path / "pod", [head(80, 24), output(1, b"hello")])
    (tmp_path / "file").write_bytes(b"")
    replay = Replay(tape.open(), Keyframes(tmp_path / "file" / "none", tape.id, workers.identity), workers)
    replay.index()

    assert replay.seek(1).picture.text == "hello"


def test_two_that_index_the_same_tape_do_not_get_in_each_others_way(tmp_path: Path, workers: Workers) -> None:
    tape = record_tape(tmp_path / "pod", [head(80, 24), output(1, b"hello")])
    busy = Keyframes(tape.root, tape.id, workers.identity)
    other = Keyframes(tape.root, tape.id, workers.identity)
    with busy.writing():
        assert not Indexer(tape.open(), workers, other).run()

    assert open_replay(tape, workers).seek(1).picture.text == "hello"


@pytest.mark.parametrize("damage_at", [0.2, 0.6])
def test_damage_on_the_tape_is_a_hole_and_the_rest_is_shown(tmp_path: Path, workers: Workers, damage_at: float) -> None:
    contents = [head(80, 24), *(output(n * 1000, b"\x1b[2J\x1b[Hscreen %d" % n) for n in range(1, 200))]
    tape = record_tape(tmp_path / "pod", contents)
    (segment,) = tape.segments()
    data = bytearray(segment.read_bytes())
    place = int(len(data) * damage_at)
    data[place] ^= 0x55
    segment.write_bytes(data)

    keyframes = _index(tape, workers)
    frame = open_replay(tape, workers).seek(10**9)

    assert frame.picture.text == "screen 199"
    assert len(keyframes.covered().holes) == 1
    assert "damaged" in (frame.doubtful or "")
