"""What has a pod's terminal is on its tape: who works in silence can be told from who waits for a line."""

from __future__ import annotations

from chaos.fleet import Fleet, Member
from chaos.machine import eventually


def _seen(member: Member) -> list[tuple[object, object]]:
    return [(event["does"], event.get("program")) for event in member.events("terminal.foreground")]


def _type(member: Member, text: str) -> None:
    with member.pod.connect() as keeper:
        keeper.send({"do": "write", "author": "test"}, text.encode())


def test_a_silent_program_is_seen_to_work(fleet: Fleet) -> None:
    member = fleet.start("m", "sleep", "60")

    eventually(lambda: _seen(member) == [("works", "sleep")], "it is seen", within_s=5)
    assert member.output() == b""


def test_a_script_works_then_reads_a_line_then_works(fleet: Fleet) -> None:
    member = fleet.start("m", "sh", "-c", "sleep 1; printf 'name? '; head -n 1 > /dev/null; echo; sleep 60")

    eventually(lambda: _seen(member)[-1:] == [("reads", "sh")], "it reads", within_s=10)
    _type(member, "ann\n")

    eventually(lambda: _seen(member) == [("works", "sh"), ("reads", "sh"), ("works", "sh")], "it works", within_s=10)


def test_a_shell_at_its_prompt_is_not_the_command_that_it_runs(fleet: Fleet) -> None:
    member = fleet.start("m", "bash", "--norc", "-i")
    eventually(lambda: b"$ " in member.output() or b"# " in member.output(), "it has a prompt", within_s=10)

    _type(member, "sleep 2\n")

    eventually(lambda: ("works", "sleep") in _seen(member), "its command is seen", within_s=10)
    eventually(lambda: _seen(member)[-1] == ("draws", None), "and its end", within_s=10)
