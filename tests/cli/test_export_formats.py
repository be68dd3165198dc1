"""``scrubjay export``: formats, parts, and files that are whole or not there."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from scrubjay.cli import exporting
from tests.support.cli import Cli


@pytest.fixture
def counted(cli: Cli) -> Cli:
    """A recording that shows a number every second for ten seconds."""
    lines: list[Any] = [{"version": 2, "width": 30, "height": 4, "timestamp": 1_763_172_000}]
    lines += [[n, "o", f"number {n}\r\n"] for n in range(1, 11)]
    (cli.work / "count.cast").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli("import", "count.cast", "--name", "count")
    (cli.work / "count.cast").unlink()
    return cli


def _numbers(first: int, last: int) -> bytes:
    return b"".join(b"number %d\n" % n for n in range(first, last + 1))


def test_a_part_in_every_format_of_events(counted: Cli) -> None:
    part = ("--from", "3.5s", "--to", "60%")

    assert counted("export", "count", "--format", "raw", *part).stdout == b"number 4\r\nnumber 5\r\nnumber 6\r\n"
    records = [json.loads(line) for line in counted("export", "count", "--format", "jsonl", *part).stdout.splitlines()]
    assert [(record["at"], record["text"]) for record in records] == [
        (n * 1_000_000, f"number {n}\r\n") for n in (4, 5, 6)
    ]
    for version, times in (("2", [0, 0.5, 1.5, 2.5]), ("3", [0, 0.5, 1, 1])):
        lines = counted("export", "count", "--format", f"asciicast-v{version}", *part).stdout.splitlines()
        assert json.loads(lines[0])["timestamp"] == 1_763_172_003
        assert [json.loads(line)[0] for line in lines[1:]] == times
    counted("export", "count", "--format", "segmented", "-o", "segments", *part)
    index = json.loads((counted.work / "segments" / "index.json").read_text())
    assert index["duration"] == 2.5
    assert (counted.work / "segments" / index["segments"][0]["url"]).is_file()


def test_the_ending_of_the_file_chooses_the_format(counted: Cli) -> None:
    for name in ("a.html", "a.svg", "a.txt"):
        done = counted("export", "count", "-o", name, "--from", "3.5s", "--to", "60%")
        assert done.stdout == b""
        assert done.stderr.decode().startswith("scrubjay: wrote ")
    page, drawing, text = ((counted.work / name).read_bytes() for name in ("a.html", "a.svg", "a.txt"))

    assert page.startswith(b"<!doctype html>")
    assert b'id="frames"' in page
    assert drawing.startswith(b"<svg ")
    assert b"number 6" in drawing
    assert b"number 7" not in drawing
    assert text == _numbers(1, 6)
    assert sorted(os.listdir(counted.work)) == ["a.html", "a.svg", "a.txt"]


def test_one_instant_is_a_still_drawing(counted: Cli) -> None:
    drawing = counted("export", "count", "--format", "svg", "--from", "5s", "--to", "5s").stdout

    assert b"number 5" in drawing
    assert b"@keyframes" not in drawing


def test_a_cast_of_a_part_can_be_taken_in_again(counted: Cli) -> None:
    counted("export", "count", "-o", "part.cast", "--from", "5s", "--to", "8s")
    counted("import", "part.cast", "--name", "part")

    assert counted("screen", "part", "--at", "0s").stdout == _numbers(3, 5)
    assert counted("screen", "part").stdout == _numbers(6, 8)


def test_times_that_are_not_there_are_said(counted: Cli) -> None:
    done = counted("export", "count", "--format", "raw", "--from", "8s", "--to", "1h")

    assert done.stdout == b"number 9\r\nnumber 10\r\n"
    assert "is after the end" in done.stderr.decode()
    assert "--from is after --to" in counted.error("export", "count", "--from", "5s", "--to", "2s", code=2)
    assert "is not a time" in counted.error("export", "count", "--from", "soon", code=2)


def test_all_recordings_of_a_name_are_one_line_of_time(counted: Cli) -> None:
    counted("export", "count", "-o", "again.cast")
    counted("import", "again.cast", "--name", "count")

    assert counted("export", "count", "--format", "txt").stdout == _numbers(1, 10)
    both = counted("export", "count", "--format", "txt", "--from", "0s").stdout
    assert both == _numbers(1, 10) * 2
    assert counted("export", "count", "--format", "raw", "--from", "9.5s", "--to", "11.5s").stdout == (
        b"number 10\r\nnumber 1\r\n"
    )


def test_segments_need_a_directory_of_their_own(counted: Cli) -> None:
    assert "name it with -o DIR" in counted.error("export", "count", "--format", "segmented", code=2)
    (counted.work / "full").mkdir()
    (counted.work / "full" / "file").touch()
    assert "is there already" in counted.error("export", "count", "--format", "segmented", "-o", "full", code=2)
    assert "there is no directory" in counted.error("export", "count", "-o", "no/a.html", code=2)
    (counted.work / "empty").mkdir()

    counted("export", "count", "--format", "segmented", "-o", "empty")

    assert (counted.work / "empty" / "index.json").is_file()
    assert sorted(os.listdir(counted.work)) == ["empty", "full"]


def test_an_interrupted_export_leaves_nothing(counted: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for format_, name in (("html", "encode_player"), ("txt", "encode_text"), ("segmented", "encode_segmented")):
        monkeypatch.setattr(exporting, name, _interrupted(getattr(exporting, name)))

        counted("export", "count", "--format", format_, "-o", "out", code=130)

        assert os.listdir(counted.work) == [], format_


def _interrupted(encode: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Generator[Any]]:
    """An encoder that somebody presses Ctrl-C in after its first part."""

    def encode_first(clip: Any) -> Generator[Any]:
        for part in encode(clip):
            yield part
            signal.raise_signal(signal.SIGINT)

    return encode_first


@pytest.mark.parametrize(
    "format_", ["svg", pytest.param("html", marks=pytest.mark.chaos), pytest.param("txt", marks=pytest.mark.chaos)]
)
def test_what_the_engine_fails_on_is_said(counted: Cli, format_: str) -> None:
    counted.env["SCRUBJAY_FAULT"] = "screen:raise@95"

    done = counted("export", "count", "--format", format_)

    assert "this may differ from what was shown: the terminal engine failed" in done.stderr.decode()


def test_a_failed_export_leaves_what_was_there(counted: Cli) -> None:
    Path(counted.work / "a.svg").write_bytes(b"precious")

    counted.error("export", "count", "-o", "a.svg", "--from", "5s", "--to", "2s", code=2)

    assert (counted.work / "a.svg").read_bytes() == b"precious"
    assert os.listdir(counted.work) == ["a.svg"]
