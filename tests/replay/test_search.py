from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrubjay.errors import BadQuery, IndexDiscarded, SearchUnavailable
from scrubjay.query import matches, parse_query
from scrubjay.replay.rows import BLOCK_ROWS, Row
from scrubjay.replay.search import Hit, Progress, SearchIndex, find_in
from tests.programs import index_writer
from tests.support.tables import every_row
from tests.support.tiers import sized

_WALL = 1_790_000_000_000_000
_S = 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "search.sqlite"


@pytest.fixture
def index(path: Path) -> Iterator[SearchIndex]:
    with SearchIndex(path) as opened:
        yield opened


def _fill(index: SearchIndex, tape: str, *texts: str, kind: str = "shown", wall_us: int | None = _WALL) -> None:
    """A row per second, from where the tape was left."""
    index.register(tape, wall_us)
    have = index.progress(tape).offset
    rows = [Row((have + n) * _S, (have + n) * 10, n % 24, kind, text) for n, text in enumerate(texts)]
    index.add(tape, rows)
    index.finish_batch(tape, have + len(texts), b"")


def _texts(hits: list[Hit]) -> list[str]:
    return [hit.text for hit in hits]


def test_a_row_is_found_with_everything_that_is_known_of_it(index: SearchIndex) -> None:
    _fill(index, "tape", "first line", "Error: connection refused", "last line")

    (hit,) = index.search(parse_query("error"))

    assert hit == Hit("tape", _S, 10, 1, "shown", "Error: connection refused", _WALL + _S)


@pytest.fixture
def phrases(index: SearchIndex) -> SearchIndex:
    _fill(index, "a", "an error", "日本語の文字幅", "\ue0a0branch\ue0b0 🤖 ok")
    _fill(index, "b", "Zażółć gęślą jaźń", "error in src/foo_bar.py", wall_us=_WALL + 100 * _S)
    return index


@every_row(
    ("query", "found"),
    [
        ("error", ["error in src/foo_bar.py", "an error"]),
        ("foo_bar", ["error in src/foo_bar.py"]),
        ("foo_bar.py", ["error in src/foo_bar.py"]),
        ("src/foo*", ["error in src/foo_bar.py"]),
        ("FOO*", ["error in src/foo_bar.py"]),
        ("error an", ["an error"]),
        ('"error an"', []),
        ("error -foo_bar", ["an error"]),
        ("err*", ["error in src/foo_bar.py", "an error"]),
        ("zażółć", ["Zażółć gęślą jaźń"]),
        ("zazolc", []),  # ł is a letter of its own
        ("jazn", ["Zażółć gęślą jaźń"]),
        ("文字", ["日本語の文字幅"]),
        ("branch", ["\ue0a0branch\ue0b0 🤖 ok"]),
        ("absent", []),
    ],
)
def test_words_phrases_prefixes_and_exclusions_work(phrases: SearchIndex, query: str, found: list[str]) -> None:
    assert _texts(phrases.search(parse_query(query))) == found
    assert phrases.count(parse_query(query)) == len(found)


def test_the_newest_come_first_whichever_tape_they_are_on(index: SearchIndex) -> None:
    _fill(index, "late", *(f"word late {n}" for n in range(5)), wall_us=_WALL + 1)
    _fill(index, "early", *(f"word early {n}" for n in range(5)), wall_us=_WALL)
    query = parse_query("word")

    newest = index.search(query, limit=4)
    oldest = index.search(query, limit=3, newest_first=False)

    assert _texts(newest) == ["word late 4", "word early 4", "word late 3", "word early 3"]
    assert _texts(oldest) == ["word early 0", "word late 0", "word early 1"]


def test_only_the_tapes_asked_for_are_searched(index: SearchIndex) -> None:
    for tape in "abc":
        _fill(index, tape, f"word {tape}")

    assert _texts(index.search(parse_query("word"), tapes={"b"})) == ["word b"]
    assert index.search(parse_query("word"), tapes=()) == []
    assert index.search(parse_query("word"), tapes=["unknown"]) == []
    assert index.count(parse_query("word"), tapes=["a", "c"]) == 2
    assert _texts(find_in(index, ["c", "a"], "word", 10)) == ["word a", "word c"]


def test_time_filters_go_by_the_wall_clock_to_the_row(index: SearchIndex) -> None:
    _fill(index, "a", *(f"word {n}" for n in range(1000)))
    _fill(index, "unknown", "word without a time", wall_us=None)
    query = parse_query("word")

    between = index.search(query, since_us=_WALL + 200 * _S, until_us=_WALL + 300 * _S, limit=500)
    assert [hit.at // _S for hit in between] == list(range(300, 199, -1))
    assert _texts(index.search(query, since_us=_WALL + 999 * _S)) == ["word 999"]
    assert _texts(index.search(query, until_us=_WALL)) == ["word 0"]
    assert index.search(query, until_us=_WALL - 1) == []
    assert index.search(query, since_us=_WALL + 1000 * _S) == []
    assert _texts(index.search(query, until_us=_WALL + 500 * _S, limit=1, newest_first=False)) == ["word 0"]


def test_what_was_typed_can_be_searched_alone(index: SearchIndex) -> None:
    _fill(index, "a", "make test shown")
    _fill(index, "a", "make test typed", kind="typed")

    assert _texts(index.search(parse_query("make"))) == ["make test typed", "make test shown"]
    assert _texts(index.search(parse_query("typed: make"))) == ["make test typed"]
    assert _texts(index.search(parse_query("shown: make"))) == ["make test shown"]


def test_rows_are_found_only_when_their_batch_is_finished(index: SearchIndex, path: Path) -> None:
    index.add("a", [Row(0, 0, 0, "shown", "word")])
    with SearchIndex(path) as other:
        assert other.search(parse_query("word")) == []
        index.finish_batch("a", 7, b"state")

        assert len(other.search(parse_query("word"))) == 1
        assert other.progress("a") == Progress(7, b"state")
        assert other.progress("b") == Progress(0, b"")


def test_rows_that_were_never_finished_are_dropped_when_the_tape_is_taken_up_again(index: SearchIndex) -> None:
    index.add("a", [Row(0, 0, 0, "shown", "word")])
    index.progress("a")
    index.finish_batch("a", 7, b"")

    assert index.search(parse_query("word")) == []


def test_of_two_who_take_in_the_same_part_one_is_dropped(index: SearchIndex, path: Path) -> None:
    with SearchIndex(path) as other:
        for writer in (index, other):
            writer.progress("a")
            writer.add("a", [Row(0, 0, 0, "shown", "word")])
        for writer in (index, other):
            writer.finish_batch("a", 7, b"")
        other.add("a", [Row(0, 0, 0, "shown", "word after a batch that was dropped")])
        other.finish_batch("a", 8, b"")

        assert _texts(index.search(parse_query("word"))) == ["word"]


def test_many_small_batches_make_the_same_index_as_one(index: SearchIndex) -> None:
    count = sized(1, 3, 3) * BLOCK_ROWS + 5
    for n in range(count):
        _fill(index, "small", f"word{n}")
    _fill(index, "large", *(f"word{n}" for n in range(count)))

    for n in (0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, count - 1):
        hits = index.search(parse_query(f"word{n}"))
        assert {(hit.tape, hit.at, hit.text) for hit in hits} == {(t, n * _S, f"word{n}") for t in ("small", "large")}


def test_rows_that_come_out_of_order_are_put_in_order(index: SearchIndex) -> None:
    index.add("a", [Row(3, 3, 0, "shown", "word 3"), Row(1, 1, -1, "typed", "word 1"), Row(2, 2, 0, "shown", "word 2")])
    index.finish_batch("a", 4, b"")

    assert _texts(index.search(parse_query("word"))) == ["word 3", "word 2", "word 1"]


def test_texts_that_are_not_one_line_of_unicode_are_made_one(index: SearchIndex) -> None:
    index.add(
        "a",
        [Row(1, 0, 0, "shown", "two\nlines"), Row(2, 0, 0, "shown", "half a \ud83d pair"), Row(3, 0, 0, "shown", "")],
    )
    index.finish_batch("a", 4, b"")

    assert _texts(index.search(parse_query("two lines"))) == ["two lines"]
    assert _texts(index.search(parse_query("pair"))) == ["half a ? pair"]


def test_a_forgotten_tape_is_gone_and_can_be_taken_in_again(index: SearchIndex, path: Path) -> None:
    _fill(index, "a", *(f"word of a {n} 文字 é" for n in range(1000)))
    _fill(index, "b", *(f"word of b {n}" for n in range(1000)))
    _fill(index, "a", "word of a typed", kind="typed")
    index.forget("a")

    assert index.tapes() == ["b"]
    assert index.progress("a") == Progress(0, b"")
    assert index.count(parse_query("word")) == 1000
    assert {hit.tape for hit in index.search(parse_query("word"), limit=2000)} == {"b"}
    assert index.search(parse_query("文字")) == []
    _check(path)

    _fill(index, "a", "word again")
    assert _texts(index.search(parse_query("word"), tapes="a")) == ["word again"]


def test_forgetting_that_was_cut_short_is_finished_the_next_time(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(index, "a", *(f"word {n}" for n in range(1000)))
    _fill(index, "b", "word")
    monkeypatch.setattr("scrubjay.replay.search._FORGET_BLOCKS", 1)
    with monkeypatch.context() as patched:
        patched.setattr("scrubjay.replay.search.spread", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            index.forget("a")

    assert index.tapes() == ["b"]
    assert len(index.search(parse_query("word"))) == 1
    index.forget("no such tape")
    assert index.count(parse_query("word")) == 1


def _interrupt(_text: str) -> str:
    raise KeyboardInterrupt


_VOCABULARY = ["red", "green", "blue", "greenish", "x_1", "src/a.py", "été", "文字", "│", "-", "🤖"]
_ASKED = [
    "red",
    "gre*",
    "green",
    "blue",
    '"red green"',
    "-blue",
    "x_1",
    "src/a*",
    "ete",
    "文*",
    "nothing",
    "b*",
    "a.py",
]
_WAYS: dict[str, dict[str, int]] = {
    "as usual": {},
    "each tape asked": {"_GATHER_ROWS": 1},
    "all by reading": {"_FEW_TAPES": 0, "_GATHER_ROWS": 1, "_CHECK_ROWS": 1, "_TRY_BLOCKS": 99},
    "all gathered": {"_GATHER_ROWS": 99999, "_CHECK_ROWS": 99999},
    "given up": {"_FEW_TAPES": 0, "_GATHER_ROWS": 1, "_CHECK_ROWS": 1, "_READ_BLOCKS": 1},
}


@pytest.mark.parametrize("way", _WAYS)
def test_every_way_finds_exactly_what_looking_at_every_row_finds(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    for name, value in _WAYS[way].items():
        monkeypatch.setattr(f"scrubjay.replay.finder.{name}", value)
    rng = Random(way)
    kept: list[Hit] = []
    for number in range(5):
        tape, wall = f"tape{number}", _WALL + rng.randrange(1000) * 7919
        index.register(tape, wall)
        rows: list[Row] = []
        at = 0
        for _ in range(rng.randrange(600)):
            at += rng.randrange(1, 5000)
            text = " ".join(rng.choices(_VOCABULARY, k=rng.randrange(6)))
            rows.append(Row(at, at, 0, rng.choice(["shown", "shown", "typed"]), text))
        for start in range(0, len(rows), 100):
            index.add(tape, rows[start : start + 100])
            index.finish_batch(tape, start + 100, b"")
        kept += [Hit(tape, row.at, row.offset, row.y, row.kind, row.text, wall + row.at) for row in rows]

    for _ in range(sized(25, 100, 2000)):
        raw = " ".join(rng.choices(_ASKED, k=rng.randint(1, 3)) + rng.choices(["", "typed:", "shown:"], k=1))
        try:
            query = parse_query(raw)
        except BadQuery:
            continue
        tapes = rng.sample(index.tapes(), 3) if rng.random() < 0.5 else None
        since, until = sorted(_WALL + rng.randrange(3_000_000) for _ in range(2))
        since, until = since if rng.random() < 0.5 else None, until if rng.random() < 0.5 else None
        limit, newest_first = rng.choice([1, 5, 20, 5000]), rng.random() < 0.7
        expected = [
            hit
            for hit in kept
            if matches(hit.text, query)
            and query.kind in (None, hit.kind)
            and (tapes is None or hit.tape in tapes)
            and (since is None or hit.time >= since)
            and (until is None or hit.time <= until)
        ]
        expected.sort(key=lambda hit: hit.time, reverse=newest_first)

        found = index.search(query, tapes=tapes, since_us=since, until_us=until, limit=limit, newest_first=newest_first)

        assert [hit.time for hit in found] == [hit.time for hit in expected[:limit]], (raw, tapes, since, until)
        assert set(found) <= set(expected)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchIndex]:
    with SearchIndex(tmp_path_factory.mktemp("shared") / "search.sqlite") as index:
        for number in range(12):
            _fill(
                index, f"tape{number}", "some words, as they are shown", 'and "others" * 文字', wall_us=_WALL + number
            )
        yield index


@settings(max_examples=sized(60, 300, 5000))
@given(raw=st.text(max_size=60), tapes=st.sampled_from([None, ["tape1"]]))
def test_any_query_finds_something_or_is_bad(shared: SearchIndex, raw: str, tapes: list[str] | None) -> None:
    try:
        query = parse_query(raw)
    except BadQuery:
        return
    hits = shared.search(query, tapes=tapes)
    assert len(hits) <= shared.count(query)


def test_a_very_long_query_is_answered(shared: SearchIndex) -> None:
    assert shared.search(parse_query("words " + " ".join(f"w{n}" for n in range(5000)))) == []
    assert shared.search(parse_query("words " + " ".join(f"-w{n}" for n in range(5000))))
    assert shared.search(parse_query('"' + "words " * 5000 + '"')) == []


def test_the_files_are_private_and_made_with_their_folder(index: SearchIndex, path: Path) -> None:
    _fill(index, "a", "word")

    files = list(path.parent.iterdir())
    assert path in files
    assert all(file.stat().st_mode & 0o077 == 0 for file in (path.parent, *files))


def test_deleting_the_file_loses_only_what_can_be_made_again(path: Path) -> None:
    with SearchIndex(path) as index:
        _fill(index, "a", "word")
    path.unlink()

    with SearchIndex(path) as index:
        assert index.progress("a") == Progress(0, b"")
        _fill(index, "a", "word")
        assert len(index.search(parse_query("word"))) == 1


@pytest.mark.parametrize(
    "how",
    ["garbage", "empty", "another database", "another version", "a rotten schema", "cut short", "a rotten journal"],
)
def test_a_file_that_is_no_index_of_this_version_is_made_anew(path: Path, how: str) -> None:
    with SearchIndex(path) as index:
        _fill(index, "a", *(f"word {n}" for n in range(500)))
    match how:
        case "garbage":
            path.write_bytes(os.urandom(100_000))
        case "empty":
            path.write_bytes(b"")
        case "another database":
            path.unlink()
            _execute(path, "CREATE TABLE other (x)")
        case "another version":
            _execute(path, "PRAGMA user_version = 99")
        case "a rotten schema":
            path.write_bytes(path.read_bytes().replace(b"CREATE VIRTUAL", b"CREATE V\xeb\xebTUAL"))
        case "cut short":
            path.write_bytes(path.read_bytes()[:5000])
        case _:
            Path(f"{path}-journal").write_bytes(os.urandom(1000))

    index = SearchIndex(path)
    for _ in range(2):
        try:
            _fill(index, "a", "word")
            assert index.search(parse_query("word"))
        except IndexDiscarded:
            continue
    index.close()
    _check(path)


def test_damage_anywhere_is_noticed_or_harmless(tmp_path: Path) -> None:
    whole = tmp_path / "whole.sqlite"
    with SearchIndex(whole) as index:
        for tape in ("a", "b"):
            _fill(index, tape, *(f"word {n} and more of them {n * 7919 % 1000:x}" for n in range(1000)))
    for seed in range(sized(10, 40, 1000)):
        path = tmp_path / str(seed) / "search.sqlite"
        path.parent.mkdir()
        path.write_bytes(_damaged(Random(seed), whole.read_bytes()))
        try:
            _use_damaged(path)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def _damaged(rng: Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    hurt = rng.randbytes(min(600, len(data) - start))
    return data[:start] + hurt + data[start + len(hurt) :]


def _use_damaged(path: Path) -> None:
    with SearchIndex(path) as index:
        for _ in range(2):
            try:
                for query in ("word", "wor*", '"more of them"', "word 500", "absent"):
                    index.search(parse_query(query), limit=5000)
                _fill(index, "a", "word", "another")
                index.forget("b")
            except IndexDiscarded:
                continue
            else:
                break
        index.progress("a")


def test_a_damaged_index_is_thrown_away_and_can_be_filled_again(path: Path) -> None:
    with SearchIndex(path) as index:
        _fill(index, "a", "word")
        _execute(path, "UPDATE block SET data = x'00'")

        with pytest.raises(IndexDiscarded):
            index.search(parse_query("word"))
        assert index.search(parse_query("word")) == []
        _fill(index, "a", "word")
        assert len(index.search(parse_query("word"))) == 1


def test_a_damaged_index_that_another_process_has_open_is_left_alone(path: Path) -> None:
    with SearchIndex(path) as index, SearchIndex(path):
        _fill(index, "a", "word")
        _execute(path, "UPDATE block SET data = x'00'")

        with pytest.raises(SearchUnavailable, match="another process has it open"):
            index.search(parse_query("word"))
    with SearchIndex(path) as index, pytest.raises(IndexDiscarded):
        index.search(parse_query("word"))


def test_a_place_that_cannot_hold_an_index_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(SearchUnavailable, match="file"):
        SearchIndex(tmp_path / "file" / "search.sqlite")


def test_processes_that_add_to_different_tapes_do_not_disturb_each_other(path: Path) -> None:
    tapes, rows = ("a", "b", "c"), sized(2000, 6000, 6000)
    with ExitStack() as stack:
        writers = [stack.enter_context(subprocess.Popen(_writer(path, tape, rows))) for tape in tapes]
        with SearchIndex(path) as index:
            while any(writer.poll() is None for writer in writers):
                index.search(parse_query("common"))  # a reader in the middle of it
    assert [writer.returncode for writer in writers] == [0, 0, 0]

    with SearchIndex(path) as index:
        for tape in tapes:
            _expect_whole(index, tape, rows)
    _check(path)


def test_a_process_that_dies_in_the_middle_of_a_batch_leaves_neither_duplicates_nor_holes(path: Path) -> None:
    for _ in range(4):
        assert subprocess.run(_writer(path, "a", 3000, 2), check=False).returncode == -signal.SIGKILL
    subprocess.run(_writer(path, "a", 3000), check=True)

    with SearchIndex(path) as index:
        _expect_whole(index, "a", 3000)
    _check(path)


def test_a_process_that_is_killed_at_any_moment_leaves_neither_duplicates_nor_holes(path: Path) -> None:
    rows = 3 * sized(3, 8, 100) * index_writer.BATCH
    for kill_after in range(sized(3, 8, 100)):
        with subprocess.Popen(_writer(path, "a", rows), stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(kill_after % 3 + 1):
                writer.stdout.readline()
            writer.kill()
        with SearchIndex(path) as index:
            _expect_whole(index, "a", index.progress("a").offset)
    subprocess.run(_writer(path, "a", rows), check=True)

    with SearchIndex(path) as index:
        _expect_whole(index, "a", rows)
    _check(path)


def _writer(path: Path, *args: object) -> list[str]:
    return [sys.executable, index_writer.__file__, str(path), *map(str, args)]


def _expect_whole(index: SearchIndex, tape: str, rows: int) -> None:
    hits = index.search(parse_query("common"), tapes=[tape], limit=rows + 1, newest_first=False)
    assert [hit.text for hit in hits] == [index_writer.row(number).text for number in range(rows)]
    assert index.count(parse_query("common"), tapes=[tape]) == rows
    assert index.progress(tape).offset == rows


def _execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()


def _check(path: Path) -> None:
    """SQLite itself finds nothing wrong."""
    connection = sqlite3.connect(path, isolation_level=None)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for kind in ("shown", "typed"):
        connection.execute(f"INSERT INTO {kind} ({kind}) VALUES ('integrity-check')")
    connection.close()
