"""``explain``, ``detect``, and what ``ps`` says of agents."""

from __future__ import annotations

import json
import shlex
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli
from tests.support.command_line import run_command
from tests.support.corpus import recordings
from tests.support.paths import PROGRAMS

_ACTOR = PROGRAMS / "actor.py"
_DIALOG = "\r\nRun this command?\r\n\u276f 1. Yes\r\n  2. No\r\n\r\nEnter to confirm, Esc to cancel"


@pytest.fixture
def cast(tmp_path: Path) -> Path:
    """A recording of a turn with a permission."""
    recording = next(each for each in recordings() if each.name == "claude-turn-ghostty")
    path = tmp_path / "turn.cast"
    path.write_bytes(recording.cast)
    return path


def _act(cli: Cli, name: str, *script: list[object]) -> None:
    """Start an agent that does as it is told."""
    log = cli.work / f"{name}.log"
    cli("run", "-d", "--name", name, "--", sys.executable, "-I", "-S", str(_ACTOR), json.dumps(script), str(log))


def _activity(cli: Cli, name: str) -> str | None:
    """What ``explain`` says an agent does; None while its status is not known yet."""
    done = run_command(("explain", "--json", name), environ=cli.env, cwd=cli.work)
    return json.loads(done.stdout)["activity"] if done.returncode == 0 else None


def test_detect_prints_intervals_that_follow_each_other(cli: Cli, cast: Path) -> None:
    intervals: list[dict[str, Any]] = cli.json("detect", str(cast), "--agent", "claude")

    assert [each["activity"] for each in intervals][-5:] == ["idle", "executing", "waiting", "executing", "idle"]
    assert all(before["t1"] == after["t0"] for before, after in pairwise(intervals))
    waiting = next(each for each in intervals if each["activity"] == "waiting")
    assert waiting["waiting_for"] == "person:permission"
    assert waiting["why"][0].startswith("program: blocked permission")


def test_detect_is_for_people_too_and_for_agents_that_nothing_is_known_of(cli: Cli, cast: Path) -> None:
    done = cli("detect", str(cast), "--agent", "nobody")

    assert b"'nobody' has no manifest" in done.stderr
    assert b"waiting: permission" in done.stdout
    assert cli("detect", str(cast), "--generic").stdout == done.stdout


def test_detect_of_a_recording_that_breaks_off_tells_what_there_is(cli: Cli, cast: Path) -> None:
    whole = cli.json("detect", str(cast), "--agent", "claude")
    cast.write_bytes(cast.read_bytes()[: -len(cast.read_bytes()) // 3])

    told = cli.json("detect", str(cast), "--agent", "claude")

    assert [each["t0"] for each in told] == [each["t0"] for each in whole][: len(told)]
    assert 0 < len(told) < len(whole)


def test_detect_of_what_is_no_recording_says_so_in_one_line(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bad.cast"
    for text in ("", "not a recording", '{"version": 7}\n', '{"version": 2, "width": 80}\n[1'):
        path.write_text(text)

        assert "bad.cast" in cli.error("detect", str(path), code=1), text


def test_what_nobody_watched_is_explained_from_the_recording(cli: Cli) -> None:
    _act(
        cli, "asker", ["print", "Working on it\r\n"], ["wait", 1.0], ["print", _DIALOG], ["read"], ["print", "\r\nbye"]
    )
    cli.wait_for(lambda: _activity(cli, "asker") == "waiting")

    now = cli.json("explain", "asker")

    assert (now["waiting_for"], now["detail"]) == ("person:permission", "Run this command?")
    assert [claim["signal"] for claim in now["evidence"]] == ["screen"]
    assert 0.5 < now["confidence"] < 0.9
    before = cli.json("explain", "asker", "--at", f"{now['since_s'] - 0.5:.3f}s")
    assert before["activity"] != "waiting"
    assert before["since_s"] < now["since_s"]
    cli("send", "asker", "--enter")
    cli.wait_until_ended("asker")
    assert cli.json("explain", "asker", "--at", f"{now['since_s'] + 0.1:.3f}s")["activity"] == "waiting"


def test_an_explanation_names_the_signals_and_the_command_that_shows_the_screen(cli: Cli) -> None:
    _act(cli, "asker", ["print", _DIALOG], ["read"])
    cli.wait_for(lambda: _activity(cli, "asker") == "waiting")

    lines = cli("explain", "asker").stdout.decode().splitlines()

    assert lines[0].startswith("asker: waiting: permission, since ")
    assert lines[1] == "  it says: Run this command?"
    assert any("because" in line and "screen" in line for line in lines)
    assert "output" in next(line for line in lines if "against it" in line)
    assert lines[-1].startswith("  see it: scrubjay screen asker --at @")
    assert b"Run this command?" in cli(*shlex.split(lines[-1].removeprefix("  see it: scrubjay "))).stdout


def test_ps_says_what_an_agent_does_only_while_somebody_watches_it(cli: Cli) -> None:
    _act(cli, "unwatched", ["print", _DIALOG], ["read"])

    pod = cli.pods()["unwatched"]

    assert (pod["state"], pod["activity"], pod["waiting_for"]) == ("running", None, None)


def test_a_program_that_is_silent_is_seen_to_work(cli: Cli) -> None:
    cli("run", "-d", "--name", "silent", "--", "sleep", "60")
    cli.wait_for(lambda: b"terminal.foreground" in cli("export", "silent", "--format", "jsonl").stdout)

    assert b"sleep works and reads nothing" in cli("explain", "silent").stdout
    assert "the status of silent at 0.0 s is not known" in cli.error("explain", "silent", "--at", "0s", code=1)
    assert "'yesterday-ish'" in cli.error("explain", "silent", "--at", "yesterday-ish", code=2)
