"""Agents report through their hooks: onto the tape, once, masked, at any time; and never to an agent's harm."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import scrubjay
from scrubjay import hook
from scrubjay.errors import KeeperRefused
from scrubjay.keeper import environment, events
from scrubjay.keeper.events import BadEvent, HookEvents
from scrubjay.pods.pod import read_pod
from scrubjay.runner.start import hook_command
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.fleet import Fleet, Member
from tests.support.processes import kill

_HOOK = [sys.executable, "-I", "-S", str(Path(scrubjay.__file__).parent / "hook.py")]
_SCRUBJAY = Path(sys.executable).parent / "scrubjay"
_ID = "5e0b7e0c-3b8a-4a83-9d0a-0123456789ab"


@pytest.fixture(autouse=True)
def patient_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports from this process are not given up, however busy the machine is."""
    monkeypatch.setattr(hook, "GIVE_UP_S", DEADLINE_S)


def _run(argv: list[str], told: object = None, folder: Path | str | None = None) -> None:
    """Report as an agent does, from a process."""
    environ = {"PATH": os.environ["PATH"]}
    if folder is not None:
        environ["SCRUBJAY_POD_FOLDER"] = str(folder)
    done = subprocess.run(argv, input=_encoded(told), env=environ, capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0
    assert done.stdout == b""
    assert done.stderr == b""


def _report(member: Member, told: object, *, source: str = "claude") -> None:
    """Report from this process: what the hook does but for reading its input, and failing without a word."""
    with suppress(ValueError, RecursionError):
        decoded = hook._decode(_encoded(told))  # pyright: ignore[reportPrivateUsage]
        hook.report(str(member.pod.folder), source, decoded)


def _encoded(told: object) -> bytes:
    return told if isinstance(told, bytes) else json.dumps(told).encode() if told is not None else b""


def _events(member: Member) -> list[Json]:
    return [event for record in member.records(Kind.EVENT) if "source" in (event := record.json())]


def _await_events(member: Member, count: int) -> list[Json]:
    eventually(lambda: len(_events(member)) >= count, f"{count} events are on the tape")
    # Each report has a connection of its own, so a long one may arrive after the next: ``seq`` tells their order.
    return sorted(_events(member), key=lambda event: int(str(event["seq"])))


def test_what_an_agent_reports_is_on_the_tape(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")

    _report(
        member,
        {
            "hook_event_name": "PermissionRequest",
            "tool_name": "Bash",
            "tool_input": {"command": "rm -rf /"},
            "session_id": _ID,
            "transcript_path": "/home/ann/t.jsonl",
            "prompt": "not worth keeping",
        },
    )
    _report(member, {"hook_event_name": "Stop", "session_id": _ID})

    assert _await_events(member, 2) == [
        {
            "event": "PermissionRequest",
            "source": "claude",
            "seq": 1,
            "tool": "Bash",
            "conversation": _ID,
            "transcript": "/home/ann/t.jsonl",
        },
        {"event": "Stop", "source": "claude", "seq": 2, "conversation": _ID},
    ]


def test_the_command_line_reports_too(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")

    _run([str(_SCRUBJAY), "hook", "mine", "turn-ended"], folder=member.pod.folder)
    _run(
        [str(_SCRUBJAY), "hook", "mine", '{"type": "agent-turn-complete", "thread-id": "abc"}'],
        folder=member.pod.folder,
    )

    first, second = _await_events(member, 2)
    assert first == {"event": "turn-ended", "source": "mine", "seq": 1}
    assert (second["event"], second["conversation"]) == ("agent-turn-complete", "abc")


def test_an_agent_in_a_pod_finds_its_keeper_by_its_environment(fleet: Fleet) -> None:
    line = f"""echo '{{"hook_event_name": "Stop"}}' | {" ".join(_HOOK)} claude; sleep 60"""

    member = fleet.start("m", "sh", "-c", line)

    assert _await_events(member, 1)[0]["event"] == "Stop"


def test_what_was_reported_before_the_end_is_on_the_tape_before_the_end(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")
    kill(member.keeper_pid, signal.SIGSTOP)  # as on a busy machine: it hears of all this at once
    for number in range(20):
        _report(member, {"hook_event_name": f"Stop-{number}"})
    kill(member.agent_pid)

    kill(member.keeper_pid, signal.SIGCONT)

    eventually(lambda: not member.pod.alive, "the pod ends")
    kinds = [record.kind for record in member.pod.tape().records()]
    assert sorted(str(event["event"]) for event in _events(member)) == sorted(f"Stop-{number}" for number in range(20))
    assert Kind.EVENT not in kinds[kinds.index(Kind.EXIT) :]


def test_the_terminal_of_an_agent_is_not_read_from(fleet: Fleet) -> None:
    member = fleet.start("m", "sh", "-c", f"{' '.join(_HOOK)} aider notification; cat")
    _await_events(member, 1)

    with member.pod.connect() as keeper:
        keeper.ask({"do": "write", "author": "test"}, b"for the agent\r")

    eventually(lambda: member.output().count(b"for the agent") == 2, "it has read what was typed")


def test_nonsense_is_neither_recorded_nor_complained_of(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")
    nonsense = [
        b"",
        b"nonsense",
        b"[1, 2]",
        b"{}",
        b'{"hook_event_name": 7}',
        b'{"hook_event_name": "two words"}',
        b'{"hook_event_name": "../x"}',
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"hook_event_name": "x" * 1000}).encode(),
    ]

    for number, told in enumerate(nonsense):
        _report(member, told)
        _report(member, {"hook_event_name": f"after-{number}"})
    for told in (b"nonsense", b"[" * 100_000):
        _run([*_HOOK, "claude"], told, member.pod.folder)
    _report(member, {"hook_event_name": "Stop"})

    found = _await_events(member, len(nonsense) + 1)
    assert [event["event"] for event in found] == [*(f"after-{number}" for number in range(len(nonsense))), "Stop"]


def test_outside_a_pod_nothing_happens_and_at_once(tmp_path: Path, promised: Callable[[float], float]) -> None:
    (tmp_path / "pod.json").write_text("{}")
    for folder in (None, tmp_path / "gone", tmp_path, "", "/dev/null"):
        began = time.monotonic()
        _run([*_HOOK, "claude"], {"hook_event_name": "Stop", "session_id": _ID}, folder)
        assert time.monotonic() - began < promised(1.5)
    _run(_HOOK, {"hook_event_name": "Stop"}, tmp_path)
    _run([*_HOOK, "../x"], {"hook_event_name": "Stop"}, tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["pod.json"]


def test_when_the_keeper_is_gone_nothing_happens(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")
    kill(member.keeper_pid)
    eventually(lambda: not member.pod.alive, "the keeper is gone")

    _run([*_HOOK, "claude"], {"hook_event_name": "Stop", "session_id": _ID}, member.pod.folder)

    assert _events(member) == []
    assert member.pod.conversation is None


def test_an_agent_does_not_notice_that_scrubjay_was_removed(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")
    line = hook_command("claude")
    for missing in (sys.executable, "hook.py"):
        _run(["sh", "-c", line.replace(missing, f"{missing}-gone")], {"hook_event_name": "Lost"}, member.pod.folder)

    _run(["sh", "-c", f"{line} named"], {"kind": "x"}, member.pod.folder)

    assert _await_events(member, 1) == [{"event": "named", "source": "claude", "seq": 1, "kind": "x"}]


def test_an_input_that_never_ends_is_given_up(fleet: Fleet, promised: Callable[[float], float]) -> None:
    member = fleet.start("m", "cat")
    reader, writer = os.pipe()
    environ = {"PATH": os.environ["PATH"], "SCRUBJAY_POD_FOLDER": str(member.pod.folder)}
    try:
        began = time.monotonic()
        subprocess.run([*_HOOK, "mine", "told"], stdin=reader, env=environ, timeout=DEADLINE_S, check=True)
        assert time.monotonic() - began < promised(2)
    finally:
        os.close(reader)
        os.close(writer)

    assert _await_events(member, 1)[0]["event"] == "told"


def test_many_at_once_have_numbers_of_their_own(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")

    def report(number: int) -> None:
        source, told = "one" if number % 2 else "other", {"hook_event_name": "PreToolUse"}
        if number % 10 < 2:
            _run([*_HOOK, source], told, member.pod.folder)
        else:
            _report(member, told, source=source)

    with ThreadPoolExecutor(8) as agents:
        list(agents.map(report, range(40)))

    found = _await_events(member, 40)
    for source in ("one", "other"):
        assert sorted(int(str(event["seq"])) for event in found if event["source"] == source) == list(range(1, 21))


def test_secrets_are_masked_before_anything_is_cut_off(fleet: Fleet) -> None:
    secret = "sk-ant-" + "Q7w9" * 12
    fleet.settings |= {"MY_API_KEY": secret}
    member = fleet.start("m", "cat")

    _report(
        member, {"hook_event_name": "Notification", "message": f"{'x' * 470} key {secret} and so on", "kind": secret}
    )
    _report(
        member, {"hook_event_name": "StopFailure", "error": {"name": "APIError", "data": {"message": f"{secret}!"}}}
    )

    first, second = _await_events(member, 2)
    kept = json.dumps([first, second])
    assert "Q7w9" not in kept
    assert len(str(first["message"])) == 500
    assert "•" in str(second["error"]) or "*" in str(second["error"])
    assert str(second["error"]).endswith("!")
    assert secret not in "".join(path.read_text("latin-1") for path in member.pod.folder.rglob("*") if path.is_file())


# What is said.


def test_prompts_and_answers_are_on_the_tape_with_the_turn_they_are_of(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")

    _report(member, {"hook_event_name": "UserPromptSubmit", "prompt_id": _ID, "prompt": "good day\n\tto you \u2764"})
    _report(member, {"hook_event_name": "Stop", "turn_id": "t-1", "model": "m-1", "last_assistant_message": "And you."})

    assert _await_events(member, 2) == [
        {
            "event": "UserPromptSubmit",
            "source": "claude",
            "seq": 1,
            "turn": _ID,
            "prompt": "good day\n\tto you \u2764",
        },
        {"event": "Stop", "source": "claude", "seq": 2, "turn": "t-1", "model": "m-1", "response": "And you."},
    ]


def test_what_is_too_long_is_cut_and_says_so(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")
    characters = ["x", "\u2764", "\U0001f600", '"', "\x01", "\ud800"]

    for character in characters:
        _report(member, {"hook_event_name": "UserPromptSubmit", "prompt": "begin " + character * 300_000})
    _run(
        [*_HOOK, "claude"],
        {"hook_event_name": "UserPromptSubmit", "prompt": "begin " + "y" * 300_000},
        member.pod.folder,
    )
    _report(member, {"hook_event_name": "Stop", "last_assistant_message": "yes", "transcript_path": "/a\udcff"})

    found = _await_events(member, len(characters) + 2)
    for character, event in zip([*characters, "y"], found, strict=False):
        prompt = str(event["prompt"])
        assert prompt.startswith("begin ")
        assert len(prompt.encode()) <= events.SAID_MAX_BYTES
        assert prompt.endswith(events.CUT) or character == "\x01"


@pytest.mark.parametrize(
    "told",
    [
        {"hook_event_name": "Stop", "last_assistant_message": "of a subagent", "agent_id": "a1", "prompt_id": "p"},
        {"hook_event_name": "SubagentStop", "last_assistant_message": "of a subagent"},
        {"hook_event_name": "PreToolUse", "prompt": "x", "last_assistant_message": "y"},
        {"hook_event_name": "UserPromptSubmit", "prompt": "  ", "last_assistant_message": "y"},
        {"hook_event_name": "UserPromptSubmit", "prompt": {"text": "x"}},
        {"hook_event_name": "Stop", "last_assistant_message": None},
    ],
)
def test_what_is_not_said_between_person_and_agent_is_not_kept(told: Json) -> None:
    assert hook.find_said(told, told["hook_event_name"]) is None
    assert "turn" not in hook.summarise(told)


def test_secrets_in_what_is_said_are_masked_before_it_is_cut(fleet: Fleet) -> None:
    secret = "sk-ant-" + "Q7w9" * 12
    fleet.settings |= {"MY_API_KEY": secret}
    member = fleet.start("m", "cat")
    straddling = "x" * (events.SAID_MAX_BYTES - len(events.CUT.encode()) - 20)

    _report(member, {"hook_event_name": "UserPromptSubmit", "prompt": f"use {secret}, please"})
    _report(member, {"hook_event_name": "Stop", "last_assistant_message": f"{straddling}{secret}{'y' * 1000}"})

    first, second = _await_events(member, 2)
    assert str(first["prompt"]).startswith("use ")
    assert str(first["prompt"]).endswith(", please")
    assert str(second["response"]).startswith(straddling)
    assert "Q7w9" not in json.dumps([first, second])
    assert secret not in "".join(path.read_text("latin-1") for path in member.pod.folder.rglob("*") if path.is_file())


# The conversation.


def test_the_conversation_an_agent_reports_is_known_without_a_runner(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")
    assert member.pod.conversation is None

    _report(member, {"hook_event_name": "SessionStart", "session_id": _ID})
    assert member.pod.conversation == _ID

    _report(member, {"hook_event_name": "SessionStart", "session_id": "ses_another"})
    pod = read_pod(member.pod.folder)
    assert pod is not None
    assert pod.conversation == "ses_another"
    assert (member.pod.folder / "conversation.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("bad", ["--resume", "a b", "../x", "x" * 200, "", "é", "a;b", 7, None])
def test_what_cannot_be_an_id_is_not_taken_for_one(bad: object) -> None:
    assert "conversation" not in hook.summarise({"hook_event_name": "Stop", "session_id": bad})


def test_the_conversation_of_a_subagent_is_not_the_agents() -> None:
    told: Json = {"hook_event_name": "PreToolUse", "session_id": _ID, "agent_id": "a1"}

    assert hook.summarise(told) == {"event": "PreToolUse"}


def test_an_interruption_is_told_from_a_failure() -> None:
    told: Json = {"hook_event_name": "PostToolUseFailure", "tool_name": "Bash", "is_interrupt": True}

    assert hook.summarise(told)["kind"] == "interrupt"


# What the keeper takes.


def test_a_report_that_comes_twice_is_recorded_once(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")
    said: Json = {"do": "event", "source": "claude", "seq": 7, "event": "Stop"}

    with member.pod.connect() as keeper:
        for meta in (said, said, said | {"source": "other"}, said | {"seq": 6}, said):
            assert keeper.ask(meta)["ok"] is True

    assert [(event["source"], event["seq"]) for event in _events(member)] == [
        ("claude", 7),
        ("other", 7),
        ("claude", 6),
    ]


def test_a_report_that_is_none_is_refused(fleet: Fleet) -> None:
    member = fleet.start("m", "cat")
    said: Json = {"do": "event", "source": "claude", "seq": 1, "event": "Stop"}
    wrong: list[Json] = [
        {"source": "two words"},
        {"source": ""},
        {"source": 7},
        {"event": "x" * 65},
        {"event": None},
        {"seq": 0},
        {"seq": True},
        {"seq": 1 << 60},
        {"seq": "1"},
        {"message": ["x"]},
        {"message": "x" * 5000},
        {"tool": {"name": "x"}},
        {"says": "thought"},
        {"says": ["prompt"]},
        {"turn": 7},
    ]

    taken: list[Json] = []
    with member.pod.connect() as keeper:
        for bad in wrong:
            with suppress(KeeperRefused):
                keeper.ask(said | bad)
                taken.append(bad)

    assert taken == []
    assert _events(member) == []


def test_what_is_remembered_of_reports_has_a_bound() -> None:
    reports = HookEvents(str)

    for number in range(1, events.REMEMBERED + 100):
        assert reports.take({"source": "a", "seq": number, "event": "x"}) is not None

    assert reports.take({"source": "a", "seq": events.REMEMBERED + 50, "event": "x"}) is None
    assert reports.take({"source": "a", "seq": 1, "event": "x"}) is not None  # long forgotten
    with pytest.raises(BadEvent):
        reports.take({})


def test_what_a_report_cannot_say_is_not_recorded() -> None:
    kept = HookEvents(str).take({"source": "a", "seq": 1, "event": "x", "prompt": "p", "kind": "k", "do": "event"})

    assert kept == {"event": "x", "source": "a", "seq": 1, "kind": "k"}


def test_what_is_said_comes_beside_the_report_and_has_a_bound() -> None:
    reports = HookEvents(str)
    said: Json = {"source": "a", "seq": 1, "event": "x", "says": "prompt"}

    with pytest.raises(BadEvent):
        reports.take(said, b"x" * (events.SAID_GIVEN_MAX_BYTES + 1))
    kept = reports.take(said, b"caf\xc3\xa9 \xff\x1b[1m")

    assert kept == {"event": "x", "source": "a", "seq": 1, "prompt": "caf\xe9 \ufffd[1m"}
    assert hook.SAID_MAX_BYTES == events.SAID_GIVEN_MAX_BYTES


def test_hook_and_keeper_agree_on_where_the_pod_is() -> None:
    assert hook.FOLDER_VARIABLE == environment.FOLDER_VARIABLE


@pytest.mark.alone
def test_a_hook_costs_an_agent_little(fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    member = fleet.start("m", "cat")
    told = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"content": "x" * 20_000},
        "session_id": _ID,
    }

    def measure(argv: list[str], folder: Path | None) -> float:
        took: list[float] = []
        for _ in range(10):
            began = time.monotonic()
            _run(argv, told, folder)
            took.append(1000 * (time.monotonic() - began))
        return statistics.median(took)

    inside = measure([*_HOOK, "claude"], member.pod.folder)
    outside = measure([*_HOOK, "claude"], None)
    typed = measure([str(_SCRUBJAY), "hook", "claude"], member.pod.folder)
    told = {"hook_event_name": "Stop", "session_id": _ID, "last_assistant_message": "x" * 200_000}
    said = measure([*_HOOK, "claude"], member.pod.folder)

    with capsys.disabled():
        print(f"\na hook takes {inside:.0f} ms in a pod, {outside:.0f} ms outside; 'scrubjay hook' {typed:.0f} ms")
        print(f"with a long answer {said:.0f} ms")
    assert max(inside, said) < 200  # 30 on an idle machine
