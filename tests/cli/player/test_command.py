"""The command with real pods: what the player finds, marks and writes is there."""

from __future__ import annotations

import json

from scrubjay.pods.status_file import StatusFile
from tests.support.cli import Cli


def _import_ten(cli: Cli) -> None:
    events = [[second, "o", f"second {second}\r\n"] for second in range(1, 11)]
    lines = [{"version": 2, "width": 80, "height": 24}, *events]
    (cli.work / "ten.cast").write_text("\n".join(map(json.dumps, lines)))
    cli("import", str(cli.work / "ten.cast"))


def test_what_was_shown_is_found_and_a_clip_of_it_is_written(cli: Cli) -> None:
    _import_ten(cli)
    clip = cli.work / "clip.cast"
    with cli.terminal("replay", "ten", "--paused", cols=80, rows=24) as terminal:
        terminal.read_until(b" / 0:10")
        terminal.type(b'/"second 7"\r')
        terminal.read_until(b"1 of 1: second 7")
        terminal.type(b"g9s\r")
        terminal.read_until(b"0:09.0")
        terminal.type(b"i0o")  # a clip cannot end before it begins, so this leaves the end alone
        terminal.read_until(b"0:00.0")
        terminal.type(b"6i8oe\r\r")
        terminal.read_until(b"write to")
        terminal.type(b"\x15" + str(clip).encode() + b"\r")
        terminal.read_until(b"wrote ")
        terminal.type(b"q")

        assert terminal.wait() == 0
    cli("import", str(clip))
    shown = cli("logs", "clip").stdout
    assert b"second 8" in shown
    assert b"second 9" not in shown


def test_a_mark_is_put_on_what_a_pod_does_now(cli: Cli) -> None:
    cli("run", "-d", "--name", "cat", "--", "sh", "-c", "echo ready; cat")
    with cli.terminal("replay", "cat", cols=80, rows=24) as terminal:
        terminal.read_until(b"ready")
        terminal.type(b"\x1b[F")
        cli("send", "cat", "something new", "--enter")
        terminal.read_until(b"something new")
        terminal.type(b"mhere it is\r")
        terminal.read_until(b"marked ")
        cli("stop", "cat")
        terminal.read_until(b"the pod has ended")
        terminal.type(b"q")

        assert terminal.wait() == 0
    records = [json.loads(line) for line in cli("export", "cat", "--format", "jsonl").stdout.splitlines()]
    assert [record["data"]["label"] for record in records if record["kind"] == "mark"] == ["here it is"]


def test_pods_of_one_name_are_played_as_one_from_the_newest_on(cli: Cli) -> None:
    for number in (1, 2):
        cli("run", "-d", "--name", "again", "--", "echo", f"run {number}")
        cli.wait_until_ended("again")
        cli.wait_for(lambda: all(pod["state"] == "exited" for pod in cli.json("ps", "--all")))
    with cli.terminal("replay", "again", "--paused", cols=80, rows=40) as terminal:
        terminal.read_until(b" / 0:0")
        terminal.type(b".")
        terminal.read_until(b"run 2")
        terminal.type(b"0")
        terminal.read_until("┊".encode())
        terminal.type(b".")
        terminal.read_until(b"run 1")
        terminal.type(b"q")

        assert terminal.wait() == 0


def test_what_the_agent_did_as_its_runner_saw_it_is_shown_and_gone_to(cli: Cli) -> None:
    _import_ten(cli)
    [pod] = cli.json("ps", "--all")
    statuses = StatusFile(cli.data / "pods" / pod["id"])
    statuses.append({"at": 1_000_000, "offset": 0, "activity": "executing"})
    statuses.append({"at": 6_000_000, "offset": 0, "activity": "waiting", "waiting_for": "person:question"})
    statuses.note_end(9_000_000, 0)

    with cli.terminal("replay", "ten", "--paused", "--at", "2s", cols=80, rows=24) as terminal:
        terminal.read_until(b"executing")
        terminal.type(b"w")
        terminal.read_until(b"0:06.0")
        terminal.read_until(b"waiting: question")
        terminal.type(b"q")

        assert terminal.wait() == 0
