"""What has a pod's terminal is on its tape: who works in silence can be told from who waits for a line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scrubjay.keeper.foreground import observe_group
from tests.support.conditions import eventually
from tests.support.fleet import Fleet, Member


def _seen(member: Member) -> list[tuple[object, object]]:
    return [(event["does"], event.get("program")) for event in member.events("terminal.foreground")]


def _type(member: Member, text: str) -> None:
    with member.pod.connect() as keeper:
        keeper.send({"do": "write", "author": "test"}, text.encode())


def test_a_silent_program_is_seen_to_work(fleet: Fleet) -> None:
    member = fleet.start("m", "sleep", "600")

    eventually(lambda: _seen(member) == [("works", "sleep")], "it is seen")
    assert member.output() == b""


def test_a_script_works_then_reads_a_line_then_works(fleet: Fleet) -> None:
    seen = fleet.logs / "seen"
    wait = f"while [ ! -e {seen} ]; do sleep 0.05; done"
    member = fleet.start("m", "sh", "-c", f"{wait}; printf 'name? '; head -n 1 > /dev/null; echo; sleep 600")

    eventually(lambda: _seen(member) == [("works", "sh")], "it works before it asks")
    seen.touch()
    eventually(lambda: _seen(member)[-1:] == [("reads", "sh")], "it reads")
    _type(member, "ann\n")

    eventually(lambda: _seen(member) == [("works", "sh"), ("reads", "sh"), ("works", "sh")], "it works")


def test_a_shell_at_its_prompt_is_not_the_command_that_it_runs(fleet: Fleet) -> None:
    member = fleet.start("m", "bash", "--norc", "-i")
    eventually(lambda: b"$ " in member.output() or b"# " in member.output(), "it has a prompt")

    _type(member, "sleep 600\n")

    eventually(lambda: ("works", "sleep") in _seen(member), "its command is seen")
    _type(member, "\x03")
    eventually(lambda: _seen(member)[-1] == ("draws", None), "and its end")


@pytest.mark.parametrize(
    ("wchan", "state", "seen"),
    [
        ("wait_woken", "S", ("reads", "sudo")),
        ("do_wait", "S", ("works", "sudo")),
        ("0", "R", ("works", "sudo")),
        ("0", "S", ("draws", "")),  # as the kernel answers who may not see it
        (None, "S", None),
    ],
)
def test_nothing_is_said_of_a_program_that_hides_where_it_sleeps(
    tmp_path: Path, wchan: str | None, state: str, seen: tuple[str, str] | None
) -> None:
    child = subprocess.Popen(["sleep", "600"], process_group=0)
    process = tmp_path / str(child.pid)
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "3").symlink_to("/dev/pts/7")
    (process / "comm").write_text("sudo\n")
    (process / "syscall").write_text("0 0x3 0x7ffc 0x1000\n")
    (process / "stat").write_text(f"12 (a) name) {state} 1 2 3\n")
    if wchan is not None:
        (process / "wchan").write_text(wchan)
    found = observe_group(child.pid, "/dev/pts/7", str(tmp_path))
    child.kill()
    child.wait()

    assert found == seen
