"""What goes through an agent's terminal, both ways, whatever the agent does with it."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import termios
import time
from pathlib import Path
from random import Random

import pytest

from scrubjay.errors import KeeperRefused
from scrubjay.tape.format import Kind
from tests.support.conditions import eventually
from tests.support.fleet import Fleet, Member
from tests.support.processes import descriptors_of, is_alive, kill
from tests.support.strace import tampered
from tests.support.tiers import sized

_LFLAG = 3


def _python(code: str) -> tuple[str, ...]:
    return sys.executable, "-I", "-S", "-c", code


def _flags(member: Member) -> int:
    terminal = os.open(f"/proc/{member.agent_pid}/fd/0", os.O_RDWR | os.O_NOCTTY)
    try:
        return termios.tcgetattr(terminal)[_LFLAG]
    finally:
        os.close(terminal)


def _shows(member: Member, text: bytes) -> None:
    eventually(lambda: text in member.output(), f"it shows {text!r}")


def _ends(member: Member) -> None:
    eventually(lambda: not member.pod.alive, "the keeper has ended", within_s=sized(90, 90, 600))


def _status(member: Member) -> object:
    (record,) = member.records(Kind.EXIT)
    return record.json()["status"]


# Typing.


@pytest.mark.parametrize(
    "agent",
    [
        ("bash", "-c", "read -s -p 'Password: ' secret; echo; echo \"${#secret} letters\"; read next; echo done"),
        _python(
            "import sys; sys.path.append(''); import getpass; s = getpass.getpass(); "
            "print(len(s), 'letters'); input(); print('done')"
        ),
    ],
    ids=["bash", "python"],
)
def test_s17_what_is_typed_while_the_terminal_hides_it_is_kept_as_a_length_only(
    fleet: Fleet, agent: tuple[str, ...]
) -> None:
    member = fleet.start("m", *agent)
    eventually(lambda: not _flags(member) & termios.ECHO, "the echo is off")

    fleet.cli("send", "m", "hunter2hunter2", "--enter")
    _shows(member, b"14 letters")
    eventually(lambda: _flags(member) & termios.ECHO, "the echo is on")
    fleet.cli("send", "m", "visible", "--enter")
    _ends(member)

    hidden, enter, visible, _ = [record.typed() for record in member.records(Kind.INPUT)]
    assert (hidden.hidden_bytes, hidden.data) == (14, b"")
    assert (enter.hidden_bytes, enter.data) in ((1, b""), (None, b"\r"))
    assert (visible.hidden_bytes, visible.data) == (None, b"visible")
    for path in fleet.data.rglob("*"):
        if path.is_file():
            assert b"hunter2" not in path.read_bytes(), path
    assert b"hunter2" not in b"".join(record.payload for record in member.records())


def test_what_is_typed_to_a_program_that_draws_itself_is_kept(fleet: Fleet) -> None:
    member = fleet.start("m", *_python("import os, tty; tty.setraw(0); os.write(1, b'raw'); os.read(0, 9)"))
    _shows(member, b"raw")

    fleet.cli("send", "m", "q")
    _ends(member)

    (typed,) = [record.typed() for record in member.records(Kind.INPUT)]
    assert (typed.data, typed.hidden_bytes) == (b"q", None)
    assert typed.author.startswith("person")


@pytest.mark.needs("strace")
def test_what_is_typed_is_on_the_tape_before_the_agent_can_act_on_it(fleet: Fleet, tmp_path: Path) -> None:
    member = fleet.start("m", "sh", "-c", "read line; echo heard $line")
    (terminal,) = {target for target in descriptors_of(member.keeper_pid).values() if target.endswith("/ptmx")}

    with tampered(
        member.keeper_pid, tmp_path / "strace", trace="write", inject=["write:signal=KILL:when=1"], path=terminal
    ):
        fleet.cli("send", "m", "rm -rf /", "--enter", expect=1)
        _ends(member)

    assert [record.typed().data for record in member.records(Kind.INPUT)] == [b"rm -rf /"]
    assert b"heard" not in member.output()


def test_input_larger_than_a_terminal_holds_arrives_whole(fleet: Fleet) -> None:
    data = Random(1).randbytes(1 << 19)
    code = (
        "import hashlib, os, time, tty; tty.setraw(0); os.write(1, b'ready'); time.sleep(0.2)\n"
        "d = hashlib.sha256(); n = 0\n"
        f"while n < {len(data)}: part = os.read(0, 65536); d.update(part); n += len(part)\n"
        "os.write(1, d.hexdigest().encode())"
    )
    member = fleet.start("m", *_python(code))
    _shows(member, b"ready")

    with member.pod.connect() as keeper:
        for start in range(0, len(data), 1 << 17):
            keeper.ask({"do": "write", "author": "test"}, data[start : start + (1 << 17)])
    _ends(member)

    assert hashlib.sha256(data).hexdigest().encode() in member.output()
    assert b"".join(record.typed().data for record in member.records(Kind.INPUT)) == data


def test_typing_to_an_agent_that_does_not_read_is_refused_before_it_fills_the_memory(fleet: Fleet) -> None:
    member = fleet.start("m", *_python("import os, time, tty; tty.setraw(0); os.write(1, b'ready'); time.sleep(1000)"))
    _shows(member, b"ready")

    with member.pod.connect() as keeper:
        keeper.ask({"do": "write", "author": "test"}, bytes(900_000))
        with pytest.raises(KeeperRefused, match="does not read what was typed before"):
            keeper.ask({"do": "write", "author": "test"}, bytes(200_000))

    assert sum(len(record.typed().data) for record in member.records(Kind.INPUT)) == 900_000
    assert is_alive(member.agent_pid)


# Output.


def test_output_is_kept_byte_for_byte_nul_and_invalid_utf8_included(fleet: Fleet) -> None:
    data = bytes(range(256)) * 40 + b"\xf0\x9f\xff\xc3\x28\xed\xa0\x80" + Random(2).randbytes(20_000)
    payload = fleet.logs / "payload"
    payload.write_bytes(data)
    code = f"import os, tty; tty.setraw(1); os.write(1, open({str(payload)!r}, 'rb').read())"
    member = fleet.start("m", *_python(code))

    _ends(member)

    assert member.output() == data


def test_a_line_of_many_megabytes_without_an_end_is_kept_byte_for_byte(fleet: Fleet) -> None:
    size = sized(4, 20, 200) << 20
    code = (
        "import os, random, tty; tty.setraw(1); piece = random.Random(3).randbytes(1 << 20).replace(b'\\n', b'.')\n"
        f"for n in range({size >> 20}):\n"
        "    view = memoryview(b'%08d' % n + piece[8:])\n"
        "    while view: view = view[os.write(1, view):]\n"
    )
    member = fleet.start("m", *_python(code))
    piece = Random(3).randbytes(1 << 20).replace(b"\n", b".")
    wanted, found = hashlib.sha256(), hashlib.sha256()
    for number in range(size >> 20):
        wanted.update(b"%08d" % number + piece[8:])

    _ends(member)
    for record in member.pod.tape().records():
        if record.kind == Kind.OUTPUT:
            found.update(record.payload)

    assert found.hexdigest() == wanted.hexdigest()
    fleet.assert_clean(member)
    assert len(member.segments(".sealed")) == -(-size // (16 << 20))


def test_everything_shown_before_the_end_comes_before_the_end(fleet: Fleet) -> None:
    script = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; exit 3"
    member = fleet.start("m", "sh", "-c", script)

    _ends(member)

    assert member.output().endswith(b"line 1999\r\n")
    assert _status(member) == 3
    kinds = [record.kind for record in member.records(Kind.OUTPUT, Kind.EXIT, Kind.SEAL)]
    assert kinds[-2:] == [Kind.EXIT, Kind.SEAL]


def test_an_agent_that_ends_at_once_has_a_whole_tape(fleet: Fleet) -> None:
    members = fleet.start_all({f"m{number}": ("sh", "-c", f"echo {number}; exit {number}") for number in range(8)})

    for number, member in enumerate(members):
        _ends(member)
        assert (member.output(), _status(member)) == (b"%d\r\n" % number, number)
    fleet.assert_clean(*members)


def test_an_agent_that_closes_its_terminal_runs_on_and_is_heard_when_it_opens_it_again(fleet: Fleet) -> None:
    code = (
        "import os, signal; os.write(1, b'shut'); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        "for fd in (0, 1, 2): os.close(fd)\n"
        "signal.sigwait([signal.SIGUSR1])\n"
        "fd = os.open('/dev/tty', os.O_RDWR); os.write(fd, b' and open'); os.read(fd, 9); os._exit(5)"
    )
    member = fleet.start("m", *_python(code))
    _shows(member, b"shut")
    eventually(lambda: not descriptors_of(member.agent_pid), "it has closed its terminal")
    fleet.cli("mark", "m", "closed")

    described = fleet.ps()["m"]["description"]
    kill(member.agent_pid, signal.SIGUSR1)
    _shows(member, b"shut and open")
    fleet.cli("send", "m", "--enter")
    _ends(member)

    assert described == "running"
    assert _status(member) == 5


def test_an_idle_keeper_of_an_agent_without_a_terminal_uses_no_processor_time(fleet: Fleet) -> None:
    member = fleet.start("m", "sh", "-c", "exec sleep 1000 </dev/null >/dev/null 2>&1")
    eventually(lambda: set(descriptors_of(member.agent_pid).values()) == {"/dev/null"}, "it is closed")
    fleet.cli("mark", "m", "settled")

    # We use half a second; beside us, a keeper that does not rest would get as much.
    before, until_s = _ticks(member.keeper_pid), time.process_time() + 0.5
    while time.process_time() < until_s:
        pass

    assert _ticks(member.keeper_pid) - before <= 5


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


# Size and signals.


def test_a_resize_is_recorded_and_reaches_the_agent(fleet: Fleet) -> None:
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.02; done"
    member = fleet.start("m", "sh", "-c", script, options=["--cols", "100", "--rows", "40"])
    _shows(member, b"40 100")

    with member.pod.connect() as keeper:
        for cols, rows in ((132, 43), (132, 43), (10, 2), (2000, 1000)):
            keeper.ask({"do": "resize", "cols": cols, "rows": rows})
    _shows(member, b"1000 2000")

    assert [record.size() for record in member.records(Kind.RESIZE)] == [(132, 43), (10, 2), (2000, 1000)]


@pytest.mark.parametrize(("cols", "rows"), [(9, 2), (10, 1), (2001, 1000), (2000, 1001), (0, 0), (65_535, 65_535)])
def test_a_size_nothing_can_be_drawn_on_is_refused(shared_member: Member, cols: int, rows: int) -> None:
    with shared_member.pod.connect() as keeper, pytest.raises(KeeperRefused, match="too small or too large"):
        keeper.ask({"do": "resize", "cols": cols, "rows": rows})

    assert shared_member.records(Kind.RESIZE) == []


def test_a_signal_is_recorded_with_its_author_and_reaches_the_foreground(fleet: Fleet) -> None:
    member = fleet.start("m", "sh", "-c", "trap 'echo heard' USR1; echo ready; while :; do sleep 0.02; done")
    _shows(member, b"ready")

    with member.pod.connect() as keeper:
        keeper.ask({"do": "signal", "signal": "usr1", "author": "pod:other"})
        with pytest.raises(KeeperRefused, match="is not a signal"):
            keeper.ask({"do": "signal", "signal": "NONE", "author": "test"})
    _shows(member, b"heard")

    (record,) = member.records(Kind.SIGNAL)
    assert record.json() == {"signal": "USR1", "author": "pod:other"}


def test_a_keeper_that_is_asked_to_end_ends_its_agent_first(fleet: Fleet) -> None:
    member = fleet.start("m", "sh", "-c", "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.02; done")
    _shows(member, b"ready")

    kill(member.keeper_pid, signal.SIGHUP)
    kill(member.keeper_pid, signal.SIGTERM)
    _ends(member)

    assert member.output().endswith(b"bye\r\n")
    assert _status(member) == 4
    assert [record.json() for record in member.records(Kind.SIGNAL)] == [{"signal": "TERM", "author": "keeper"}]
    assert member.records()[-1].kind == Kind.SEAL


# What the agent starts with.


def test_an_agent_starts_with_its_terminal_and_nothing_else(fleet: Fleet) -> None:
    code = (
        "import os\n"
        "held = [fd for fd in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + fd)]\n"
        "print('descriptors', *sorted(held), os.ttyname(0) == os.ttyname(1) == os.ttyname(2))\n"
        "print('leader', os.getsid(0) == os.getpid() == os.tcgetpgrp(0))\n"
        "print('inside', os.environ['SCRUBJAY_POD_NAME'], os.environ['TERM'], 'SCRUBJAY_WHEN_FULL' in os.environ)\n"
    )
    fleet.settings["SCRUBJAY_WHEN_FULL"] = "pause"
    member = fleet.start("m", *_python(code))
    _ends(member)

    assert member.output().decode().splitlines() == [
        "descriptors 0 1 2 True",
        "leader True",
        "inside m xterm-256color False",
    ]


def test_an_agent_starts_with_no_signal_blocked_or_ignored(fleet: Fleet) -> None:
    member = fleet.start("m", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
    _ends(member)

    # Of those that programs can set at all: the C library keeps two for itself, which are as the shell had them.
    settable = sum(1 << (number - 1) for number in signal.valid_signals())
    masks = [int(line.split()[1], 16) & settable for line in member.output().splitlines()]
    assert masks == [0, 0]


@pytest.mark.parametrize(
    "command",
    [("/nonexistent/command",), ("no-such-command-anywhere",), ("/etc/passwd",), ("/tmp",)],
    ids=["no file", "not in the path", "not executable", "a directory"],
)
def test_a_command_that_cannot_be_run_fails_in_one_line_and_leaves_nothing(
    fleet: Fleet, command: tuple[str, ...]
) -> None:
    failed = fleet.cli("run", "-d", "--", *command, expect=1)

    assert failed.stderr.startswith("scrubjay: ")
    assert failed.stderr.count("\n") == 1
    assert list((fleet.data / "pods").glob("*")) == []
    eventually(lambda: not fleet.processes(), "no process is left")


def test_a_program_the_kernel_cannot_run_fails_in_one_line_and_leaves_nothing(fleet: Fleet) -> None:
    program = fleet.logs / "program"
    program.write_bytes(b"\x7fELF nonsense")
    program.chmod(0o755)

    failed = fleet.cli("run", "-d", "--", str(program), expect=1)

    assert failed.stderr == f"scrubjay: cannot start {program}: Exec format error\n"
    assert list((fleet.data / "pods").glob("*")) == []
    eventually(lambda: not fleet.processes(), "no process is left")


def test_a_tape_is_sealed_by_itself_after_the_end(fleet: Fleet) -> None:
    member = fleet.start("m", "echo", "hello")
    _ends(member)

    fleet.assert_clean(member)

    assert len(member.segments(".sealed")) == 1
    assert fleet.cli("logs", "m").stdout == "hello\n"
