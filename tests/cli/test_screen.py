"""``scrubjay screen``."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli, open_cli

_HARMLESS = re.compile(rb"(?:\x1b\[[0-9;:]*m|[^\x00-\x08\x0b-\x1f\x7f]|\n|\t)*")


def _cast(path: Path, *events: tuple[float, str, str], cols: int = 30, rows: int = 4) -> Path:
    lines: list[Any] = [{"version": 2, "width": cols, "height": rows, "timestamp": 1_763_172_000}, *events]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    """A recording that shows a number every second for ten seconds, and that no test changes."""
    events = [(float(n), "o", f"number {n}\r\n") for n in range(1, 11)]
    with open_cli(tmp_path_factory.mktemp("counted")) as cli:
        cli("import", str(_cast(cli.work / "count.cast", *events)), "--name", "count")
        yield cli


def test_the_last_screen_as_text(counted: Cli) -> None:
    assert counted("screen", "count").stdout == b"number 8\nnumber 9\nnumber 10\n"


def test_the_screen_at_an_instant_and_what_scrolled_off_before(counted: Cli) -> None:
    assert counted("screen", "count", "--at", "5.5s").stdout == b"number 3\nnumber 4\nnumber 5\n"
    assert counted("screen", "count", "--at", "-5s", "--scrollback", "1").stdout == (
        b"number 2\nnumber 3\nnumber 4\nnumber 5\n"
    )


def test_a_time_that_is_not_there_is_said(counted: Cli) -> None:
    done = counted("screen", "count", "--at", "1h")

    assert done.stdout.endswith(b"number 10\n")
    assert done.stderr.decode().startswith("scrubjay: 1:00:00.0 is after the end")
    assert "is not a time" in counted.error("screen", "count", "--at", "soon", code=2)


def test_json_says_everything(cli: Cli) -> None:
    shown = (
        "\x1b]2;a \u202etitle\x07\x1b]7;file:///home/ann\x07\x1b[?2004h\x1b[?1049h"
        "\x1b[1;31mred\x1b[0m \x1b[4:3;38;2;1;2;3;48;5;24mtext\x1b[0m\r\n"
        "\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\\x1b[3 q"
    )
    cli("import", str(_cast(cli.work / "a.cast", (1.5, "o", shown))), "--name", "a")

    said = json.loads(cli("screen", "a", "--format", "json").stdout)

    assert {
        name: said[name] for name in ("cols", "rows", "at", "time", "title", "cwd", "alternate", "unavailable")
    } == {
        "cols": 30,
        "rows": 4,
        "at": 1_500_000,
        "time": 1_500_000,
        "title": "a title",
        "cwd": "file:///home/ann",
        "alternate": True,
        "unavailable": None,
    }
    assert said["wall"] == 1_763_172_001_500_000
    assert said["offset"] > 0
    assert 2004 in said["modes"]
    assert said["cursor"] == {"x": 4, "y": 1, "visible": True, "shape": "underline"}
    assert [line["text"] for line in said["lines"]] == ["red text", "link", "", ""]
    assert said["lines"][0]["spans"] == [
        {"text": "red", "cells": 3, "fg": 1, "attributes": ["bold"]},
        {"text": " ", "cells": 1},
        {"text": "text", "cells": 4, "fg": "#010203", "bg": 24, "underline": "curly"},
    ]
    assert said["lines"][1]["spans"] == [{"text": "link", "cells": 4, "link": "https://example.com"}]


def test_html_is_a_page(counted: Cli) -> None:
    page = counted("screen", "count", "--format", "html").stdout.decode()

    assert page.startswith("<!doctype html>")
    assert "number 10" in page


def test_on_a_terminal_it_has_colours_and_nothing_that_acts(cli: Cli) -> None:
    hostile = (
        "\x1b]52;c;aGk=\x07\x1b]0;title\x07\x1b[21t\x1b[31mred\x1b[0m\x1b[?1049h\x1b[c"
        "\x1b]8;;javascript:x\x07text\x1b]8;;\x07\u009b5n\x1b]9;hello\x07\x1bPq\x1b\\\x1b_Gx\x1b\\\x05"
    )
    cli("import", str(_cast(cli.work / "a.cast", (1, "o", hostile))), "--name", "a")

    with cli.terminal("screen", "a") as terminal:
        assert terminal.wait() == 0

    assert b"text" in terminal.seen
    assert _HARMLESS.fullmatch(terminal.seen.replace(b"\r\n", b"\n"))
    assert _HARMLESS.fullmatch(cli("screen", "a", "--format", "ansi").stdout)


def test_a_running_pod_shows_what_it_shows_now(cli: Cli) -> None:
    cli("run", "-d", "--name", "cat", "--", "cat")
    cli("send", "cat", "hello there", "--enter")
    cli.wait_for(lambda: cli("logs", "cat").stdout.count(b"hello there") == 2)

    assert cli("screen", "cat").stdout == b"hello there\nhello there\n"


def test_a_screen_the_engine_fails_on_is_said_to_be_unavailable(counted: Cli) -> None:
    said = _faulty(counted).error("screen", "count", code=1)

    assert "screen unavailable: the terminal engine failed" in said


@pytest.mark.chaos
def test_json_says_that_a_screen_is_unavailable(counted: Cli) -> None:
    done = _faulty(counted)("screen", "count", "--format", "json", code=1)

    assert "the terminal engine failed" in json.loads(done.stdout)["unavailable"]


def _faulty(cli: Cli) -> Cli:
    """The same recordings, with an engine that fails on them."""
    faulty = Cli(cli.data, cli.work)
    faulty.env["SCRUBJAY_FAULT"] = "screen:raise@95"
    return faulty


def test_it_needs_a_pod(cli: Cli) -> None:
    assert "there is no pod 'x'" in cli.error("screen", "x", code=1)


def test_json_is_asked_for_as_everywhere(counted: Cli) -> None:
    assert counted("screen", "count", "--json").stdout == counted("screen", "count", "--format", "json").stdout
    assert "choose one of them" in counted.error("screen", "count", "--json", "--format", "html", code=2)
