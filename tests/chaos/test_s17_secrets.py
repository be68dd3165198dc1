"""Secrets of twenty kinds, printed and typed in every way, then looked for on the disk and in what leaves it."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import statistics
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from scrubjay.replay.keyframes import open_keyframes
from scrubjay.replay.rows import Block, unpack
from scrubjay.replay.workers import Workers
from scrubjay.screen.snapshot import read_snapshot
from scrubjay.tape.format import Kind
from tests.support.canaries import make_canaries
from tests.support.conditions import eventually
from tests.support.fleet import Fleet, Member
from tests.support.paths import PROGRAMS
from tests.support.tiers import sized

LEAKER = PROGRAMS / "secret_printer.py"
CANARIES = make_canaries(sized(1, 3, 3))
GITHUB = next(canary for canary in CANARIES if canary.kind == "github")
_EXACT = ("whole", "split", "slow")
_DRESSED = ("coloured", "rainbow", "wrapped", "indented", "boxed")
_BETWEEN = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\r\n ]|[\u2500-\u257f]")
_HELD_S = 0.05  # the longest that output may wait because it begins like a secret
_TIMES = 10
_RATE = 0.95


@pytest.fixture(scope="module")
def secrets() -> list[str]:
    """What must not be found: every value that is a secret, and every line of a long one."""
    return [secret for canary in CANARIES for secret in canary.secrets]


def _leaker(ways: str, *more: str) -> tuple[str, ...]:
    return sys.executable, "-I", "-S", str(LEAKER), ways, *more


def _shows(member: Member, text: bytes) -> None:
    eventually(lambda: text in member.output(), f"it shows {text!r}")


def _type(member: Member, data: bytes, *, bytes_at_once: int = 1 << 16) -> None:
    with member.pod.connect() as keeper:
        for start in range(0, len(data), bytes_at_once):
            keeper.ask({"do": "write", "author": "person:ann"}, data[start : start + bytes_at_once])


def _end(fleet: Fleet, member: Member) -> None:
    _type(member, b"end\r")
    eventually(lambda: not member.pod.alive, "it has ended")
    fleet.cli("seal", member.name)  # not at the pace of what takes only idle time
    fleet.await_sealed(member)
    fleet.cli("reindex", "--all")


def _found(secrets: list[str], texts: Iterator[str]) -> set[str]:
    """Those of the secrets that stand in one of the texts."""
    text = "\0".join(texts)
    return {secret for secret in secrets if secret in text}


# Where something is kept.


def _files(folder: Path) -> Iterator[str]:
    """Every file as it is."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes().decode("latin-1")


def _tape(member: Member) -> Iterator[str]:
    """Every record of a tape that was sealed, by itself and all output in one."""
    yield from (record.payload.decode("latin-1") for record in member.records())
    yield member.output().decode("utf-8", "replace")
    yield b"".join([record.typed().data for record in member.records(Kind.INPUT)]).decode("utf-8", "replace")


def _keyframes(member: Member) -> Iterator[str]:
    """Every screen that is kept, its rows in one."""
    with Workers() as workers:
        keyframes = open_keyframes(member.pod.folder, member.pod.tape(), workers.identity)
        assert keyframes.exists
        for offset in keyframes.offsets():
            frame = keyframes.nearest_offset(offset)
            assert frame is not None
            rows = read_snapshot(frame.snapshot, history=10_000).screen
            yield "".join([row.text() for row in [*rows.history, *rows.rows]])


def _index(data: Path) -> Iterator[str]:
    """Rows, words and notes of the search index."""
    with sqlite3.connect(data / "search.sqlite") as index:
        for (block,) in index.execute("SELECT data FROM block"):
            yield Block(block).text
            yield Block(block).text.replace("\n", "")
        for (state,) in index.execute("SELECT state FROM tape"):
            yield unpack(state).decode() if state else ""
        for kind in ("shown", "typed"):
            index.execute(f"CREATE VIRTUAL TABLE temp.words_{kind} USING fts5vocab(main, {kind}, row)")
            yield "\0".join(word for (word,) in index.execute(f"SELECT term FROM temp.words_{kind}"))


def test_s17_secrets_of_the_environment_are_nowhere_on_the_disk(
    fleet: Fleet, secrets: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.settings |= {canary.variable: canary.value for canary in CANARIES}
    ways = ",".join(("filler", *_EXACT, *_DRESSED))
    member = fleet.start("m", *_leaker(ways), options=("--cols", "80", "--rows", "24"))
    _shows(member, b"printed")
    for canary in CANARIES:
        _type(member, canary.value.replace("\n", "\r").encode() + b"\r")
    for canary in CANARIES[::7]:
        _type(member, canary.secrets[0].encode() + b"\r", bytes_at_once=1)
    _type(member, b"hide\r")
    _shows(member, b"hidden")
    for canary in CANARIES:
        _type(member, canary.value.replace("\n", "\r").encode() + b"\r")
    _end(fleet, member)

    shown = member.output().decode("utf-8", "replace")
    by_way = dict(zip(*[iter(re.split(r"== (\w+) ==", shown)[1:])] * 2, strict=True))
    assert set(by_way) == {*_EXACT, *_DRESSED}
    kept = {way: _BETWEEN.sub("", text) for way, text in by_way.items()}
    leaked = {way: _found(secrets, iter([kept[way]])) for way in _DRESSED}
    rate = 1 - sum(map(len, leaked.values())) / len(secrets) / len(_DRESSED)
    with capsys.disabled():
        print(f"\n  S17: {rate:.2%} of {len(secrets) * len(_DRESSED)} coloured or wrapped secrets hidden")

    assert not _found(secrets, _files(fleet.data))
    assert not _found(secrets, _tape(member))
    assert not _found(secrets, _keyframes(member))
    assert not _found([*secrets, *map(str.lower, secrets)], _index(fleet.data))
    assert not _found(secrets, iter([kept[way] for way in _EXACT]))
    assert rate >= _RATE, leaked
    assert "redacted" in shown
    assert _names(member) == {canary.variable for canary in CANARIES}
    assert len(member.events("secret.masked")) < 200
    hidden = [typed for record in member.records(Kind.INPUT) if (typed := record.typed()).hidden_bytes is not None]
    typed_bytes = sum(len(canary.value) + 1 for canary in CANARIES) + len("end\r")
    assert sum(typed.hidden_bytes or 0 for typed in hidden) == typed_bytes
    assert not any(typed.data for typed in hidden)


def _names(member: Member) -> set[str]:
    """The variables that were hidden, as the tape tells it."""
    return {name for event in member.events("secret.masked") for name in cast(list[str], event["names"])}


def test_s17_the_agent_gets_what_was_typed_and_the_command_it_was_given(fleet: Fleet) -> None:
    canary = GITHUB
    fleet.settings[canary.variable] = canary.value
    code = "import sys; print(len(sys.argv[1]), sys.argv[1][::-1]); line = input(); print(len(line), line[::-1])"
    member = fleet.start("m", sys.executable, "-c", code, canary.value)
    eventually(lambda: member.output().endswith(b"\r\n"), "it has said something")
    _type(member, canary.value.encode() + b"\r")
    eventually(lambda: not member.pod.alive, "it has ended")

    told = f"{len(canary.value)} {canary.value[::-1]}\r\n"

    assert member.output().decode().count(told) == 2
    assert not _found([canary.value], _files(fleet.data))
    assert not _found([canary.value], _tape(member))
    assert "redacted" in str(fleet.ps()["m"])


def test_s17_a_value_can_be_named_and_one_can_be_shown(fleet: Fleet) -> None:
    fleet.settings |= {"LICENCE": "word-word", "GITHUB_TOKEN": GITHUB.value}
    fleet.settings["SCRUBJAY_MASK"] = "LICENCE,-GITHUB_TOKEN"
    member = fleet.start("m", "sh", "-c", "echo $LICENCE; echo $GITHUB_TOKEN")
    eventually(lambda: not member.pod.alive, "it has ended")

    assert b"word-word" not in member.output()
    assert GITHUB.value.encode() in member.output()
    assert json.loads((member.pod.folder / "pod.json").read_bytes())["mask"] == ["LICENCE", "-GITHUB_TOKEN"]


@pytest.mark.alone
def test_s17_half_a_secret_is_shown_within_a_moment(fleet: Fleet) -> None:
    canary = GITHUB
    fleet.settings[canary.variable] = canary.value
    code = (
        f"import os, time; half = os.environ[{canary.variable!r}][:20].encode()\n"
        f"for _ in range({_TIMES}): os.write(1, b'now ' + half); time.sleep(0.2); os.write(1, b'\\r\\n')"
    )
    member = fleet.start("m", sys.executable, "-I", "-S", "-c", code)
    eventually(lambda: not member.pod.alive, "it has ended")

    records = [(record.at, record.payload) for record in member.records(Kind.OUTPUT)]
    begun = [at for at, payload in records if payload.endswith(b"now ")]
    shown = [at for at, payload in records if payload.startswith(b"ghp_")]
    delays_s = [(later - now) / 1e6 for now, later in zip(begun, shown, strict=True)]
    assert len(delays_s) == _TIMES
    assert statistics.median(delays_s) <= _HELD_S


def test_s17_what_is_begun_like_a_secret_is_on_the_tape_before_a_resize_and_the_end(fleet: Fleet) -> None:
    canary = GITHUB
    fleet.settings[canary.variable] = canary.value
    code = f"import os; os.write(1, b'end ' + os.environ[{canary.variable!r}][:4].encode())"
    member = fleet.start("m", sys.executable, "-I", "-S", "-c", code)
    eventually(lambda: not member.pod.alive, "it has ended")

    kinds = [record.kind for record in member.records() if record.kind in (Kind.OUTPUT, Kind.EXIT)]
    assert member.output() == b"end ghp_"
    assert kinds[-1] == Kind.EXIT


# What leaves the machine: keys that nobody told us of are known by their shapes.


def _page_rows(page: str) -> str:
    """The rows that a page unpacks."""
    match = re.search(r'<script type="text/plain" id="rows">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return zlib.decompress(base64.b64decode(match[1])).decode()


def _events(cast_: str) -> str:
    """What a cast shows and was typed, in one."""
    events = [json.loads(line) for line in cast_.splitlines()[1:]]
    return "".join([event[2] for event in events if event[1] == "o"]) + "".join(
        [event[2] for event in events if event[1] == "i"]
    )


def _segments(folder: Path) -> str:
    parts: list[str] = []
    for path in sorted(folder.glob("0*.json")):
        segment = json.loads(path.read_text())
        parts.append(segment["snapshot"]["init"])
        parts += [event[2] for event in segment["events"] if event[1] == "o"]
    return "".join(parts)


def test_s17_keys_of_known_shapes_are_not_indexed_found_or_exported(
    fleet: Fleet, secrets: list[str], tmp_path: Path
) -> None:
    listing = tmp_path / "canaries"
    listing.write_text("".join(f"{canary.variable}\t{canary.printed}\0" for canary in CANARIES))
    member = fleet.start("m", *_leaker("whole", str(listing)), options=("--cols", "80", "--rows", "24"))
    _shows(member, b"printed")
    for canary in CANARIES:
        if canary.kind != "pem":
            _type(member, canary.printed.encode() + b"\r")
    _end(fleet, member)

    exports: dict[str, str] = {}
    for format_ in ("txt", "html", "svg", "jsonl", "asciicast-v2", "asciicast-v3", "segmented", "raw"):
        path = tmp_path / f"export.{format_}"
        fleet.cli("export", "m", "--format", format_, "-o", str(path))
        exports[format_] = _segments(path) if path.is_dir() else path.read_text("utf-8")
    exports["html"] = _page_rows(exports["html"])
    lines = [json.loads(line) for line in exports["jsonl"].splitlines()]
    exports["jsonl"] = "".join([line["text"] for line in lines if line["kind"] == "output"])
    for version in ("asciicast-v2", "asciicast-v3"):
        exports[version] = _events(exports[version])

    assert _found(secrets, iter([exports.pop("raw")])) == set(secrets)  # the exact bytes, as it says
    for format_, text in exports.items():
        assert not _found(secrets, iter([text, _BETWEEN.sub("", text)])), format_
        assert "redacted" in text, format_
    assert not _found([*secrets, *map(str.lower, secrets)], _index(fleet.data))
    for canary in CANARIES[::7]:
        assert fleet.cli("search", f'"{canary.secrets[0]}"', expect=None).stdout == ""
    assert "redacted" in fleet.cli("search", "redacted", "--limit", "3").stdout
