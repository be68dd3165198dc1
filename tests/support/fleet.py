"""Pods with metronomes in a temporary data directory, started through the real command line.

Everything a fleet starts has the data directory in its command line or a pod's id in its environment;
that is how it finds, at its end, what should not be there any more. It signals nothing else.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from scrubjay.pods.home import Home
from scrubjay.pods.pod import Observation, Pod
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json, Record
from scrubjay.tape.segment import list_segments
from tests.support.command_line import run_command
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.ledger import Ledger, tape_ledger
from tests.support.paths import PROGRAMS
from tests.support.pods import ask_to_end
from tests.support.processes import (
    command_of,
    environment_of,
    hurry,
    is_alive,
    kill,
    pids,
    sockets_of,
    state_of,
    takes_idle_time,
    terminals_of,
    unix_sockets,
)

if TYPE_CHECKING:
    from tests.support.services import Service

METRONOME = PROGRAMS / "metronome.py"
SCRUBJAY = Path(sys.executable).parent / "scrubjay"
_KEEPER = b"keeper/__main__.py"


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of the fleet."""

    pod: Pod
    keeper_pid: int
    agent_pid: int
    log: Path  #: where its metronome says how far it is

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return self.pod.name

    @property
    def progress(self) -> int:
        """The last number its agent has written."""
        try:
            return int(self.log.read_bytes() or b"-1")
        except FileNotFoundError:
            return -1

    def records(self, *kinds: Kind) -> list[Record]:
        """The records on its tape, of these kinds if any are given."""
        return [record for record in self.pod.tape().records() if not kinds or record.kind in kinds]

    def events(self, name: str) -> list[Json]:
        """The events of that name on its tape."""
        return [event for record in self.records(Kind.EVENT) if (event := record.json()).get("event") == name]

    def labels(self) -> list[str]:
        """The labels of the marks on its tape."""
        return [str(record.json()["label"]) for record in self.records(Kind.MARK)]

    def output(self) -> bytes:
        """Everything its agent has shown."""
        return b"".join(record.payload for record in self.records(Kind.OUTPUT))

    def ledger(self) -> Ledger:
        """What its tape holds of its metronome's numbers."""
        return tape_ledger(self.pod.tape())

    @property
    def sealed(self) -> bool:
        """Whether its tape is sealed from its first to its last segment, and the sealer is done with each."""
        files = list_segments(self.pod.folder / "tape")
        return not any(file.path.with_suffix(".raw").exists() for file in files)

    def segments(self, ending: str) -> list[str]:
        """The names of its tape's files with that ending."""
        return sorted(path.name for path in (self.pod.folder / "tape").glob("*" + ending))


class Onlooker:
    """A command that goes on, such as ``attach`` or ``logs -f``, in a process group of its own."""

    def __init__(self, argv: Sequence[str], environ: dict[str, str], *, terminal: bool) -> None:
        self.shown = bytearray()
        self._terminal: int | None = None
        self._reader: threading.Thread | None = None
        if terminal:
            self._terminal, theirs = pty.openpty()
            self.process = subprocess.Popen(
                argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
            )
            os.close(theirs)
            self._reader = threading.Thread(target=self._read)
            self._reader.start()
        else:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environ,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def type(self, data: bytes) -> None:
        """Type into its terminal."""
        assert self._terminal is not None
        os.write(self._terminal, data)

    def _read(self) -> None:
        assert self._terminal is not None
        with suppress(OSError):  # the other side is gone
            while data := os.read(self._terminal, 65536):
                self.shown += data

    def end(self, number: int = signal.SIGKILL) -> int:
        """Signal it, wait for its end and return its exit status."""
        self.process.send_signal(number)
        if number != signal.SIGKILL:
            kill(self.pid, signal.SIGCONT)
        return self.wait()

    def wait(self, *, within_s: float = DEADLINE_S) -> int:
        """Wait for its end and return its exit status."""
        status = self.process.wait(within_s)
        if self._reader is not None and self._terminal is not None:
            self._reader.join(within_s)
            os.close(self._terminal)
            self._reader = self._terminal = None
        return status


@dataclass(slots=True)
class Fleet:
    """The pods of one data directory."""

    data: Path
    logs: Path  #: where metronomes keep their logs; not on a disk that a test fills
    settings: dict[str, str] = field(default_factory=dict[str, str])
    members: list[Member] = field(default_factory=list[Member])
    onlookers: list[Onlooker] = field(default_factory=list[Onlooker])
    services: list[Service] = field(default_factory=list["Service"])
    times: dict[str, float] = field(default_factory=dict[str, float])  #: constants of its services, by module and name
    _sockets: set[str] = field(default_factory=set[str])
    _terminals: set[int] = field(default_factory=set[int])

    @property
    def environ(self) -> dict[str, str]:
        """What commands of this fleet are started with."""
        # With bytecode kept, as people have it: a command starts in half the time.
        outside = {
            key: value
            for key, value in os.environ.items()
            if key != "PYTHONDONTWRITEBYTECODE" and not key.startswith("SCRUBJAY_")
        }
        return outside | self.settings

    def command(self, *words: str) -> list[str]:
        """The words of a command on this fleet's data directory."""
        return [str(SCRUBJAY), "--data", str(self.data), *words]

    def cli(self, *words: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end in this process; AssertionError unless it exits as expected, None being any way."""
        done = run_command(["--data", str(self.data), *words], environ=self.environ)
        out, err = done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape")
        assert expect is None or done.returncode == expect, f"{words}: exit {done.returncode}: {out}{err}"
        return subprocess.CompletedProcess(words, done.returncode, out, err)

    def ps(self) -> dict[str, Json]:
        """What ``ps --all --json`` says of each pod, by name."""
        rows = cast(list[Json], json.loads(self.cli("ps", "--all", "--json").stdout))
        return {str(row["name"]): row for row in rows}

    def start(self, name: str, *argv: str, options: Sequence[str] = ()) -> Member:
        """Start any program."""
        return self.start_all({name: argv}, options=options)[0]

    def metronome(self, name: str, *options: str) -> Member:
        """Start a metronome."""
        return self.metronomes([name], *options)[0]

    def metronomes(self, names: Iterable[str], *options: str) -> list[Member]:
        """Start several metronomes."""
        return self.start_all({name: (*self._metronome(name), *options) for name in names})

    def _metronome(self, name: str) -> tuple[str, ...]:
        return sys.executable, "-I", "-S", str(METRONOME), "--log", str(self._log(name))

    def _log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def start_all(self, programs: dict[str, tuple[str, ...]], *, options: Sequence[str] = ()) -> list[Member]:
        """Start programs by name, and learn their processes from where ``ps`` has them."""
        for name, argv in programs.items():
            self.cli("run", "-d", "--name", name, *options, "--", *argv)
        home = Home(self.data)
        pods = {str(pod.name): pod for pod in home.pods()}  # the newest of a name is the last
        observed = home.observe([pods[name] for name in programs])
        started = [self._enlist(pod, seen) for pod, seen in observed]
        self.members += started
        return started

    def _enlist(self, pod: Pod, seen: Observation) -> Member:
        live = seen.live or {"keeper_pid": 0, "agent_pid": 0}  # 0: it has ended already
        member = Member(pod, int(str(live["keeper_pid"])), int(str(live["agent_pid"])), self._log(pod.name))
        if member.keeper_pid:
            self._watch(member.keeper_pid)
        return member

    def _watch(self, keeper_pid: int) -> None:
        with suppress(FileNotFoundError, ProcessLookupError):
            self._sockets |= sockets_of(keeper_pid)
            self._terminals |= terminals_of(keeper_pid)

    def attach(self, member: Member) -> Onlooker:
        """Attach to a pod from a terminal that somebody reads."""
        return self._look(Onlooker(self.command("attach", member.name), self.environ, terminal=True))

    def follow(self, member: Member) -> Onlooker:
        """Follow a pod's logs."""
        return self._look(Onlooker(self.command("logs", "-f", member.name), self.environ, terminal=False))

    def run_aside(self, *words: str) -> Onlooker:
        """Start a command without waiting for it."""
        return self._look(Onlooker(self.command(*words), self.environ, terminal=False))

    def _look(self, onlooker: Onlooker) -> Onlooker:
        self.onlookers.append(onlooker)
        return onlooker

    def service(self, *words: str, data: Path | None = None, settings: dict[str, str] | None = None) -> Service:
        """A command that goes on, such as ``up``; not started yet."""
        from tests.support.services import Service

        log = self.logs / f"{words[0]}-{len(self.services)}.log"
        service = Service(data or self.data, words, log, self.environ | (settings or {}), times=self.times)
        self.services.append(service)
        return service

    def up(self) -> Service:
        """Server and runner of this fleet's data directory, running."""
        service = self.service("up", "--port", "0", "--json")
        service.start()
        return service

    def server_and_runner(self, *, through: int | None = None) -> tuple[Service, Service]:
        """A server with copies of its own, and this fleet's runner, which goes to it through another port if given."""
        port = free_port()
        server = self.service("server", "--port", str(port), "--json", data=self.data.parent / "server")
        server.start()
        made = cast(Json, server.client.post("/api/v1/tokens", {"role": "runner", "name": "test"}))
        url = f"http://127.0.0.1:{through or port}"
        runner = self.service("runner", "join", url, settings={"SCRUBJAY_TOKEN": str(made["token"])})
        runner.begin()
        return server, runner

    def processes(self, member: Member | None = None) -> list[int]:
        """The living processes that belong to the fleet, or to one pod of it."""
        return [pid for pid in self._processes(pids(), member) if is_alive(pid)]

    def _processes(self, among: Iterable[int], member: Member | None = None) -> list[int]:
        folder = self.data / "pods"
        ids = [member.pod.id] if member is not None else [entry.name for entry in folder.glob("*")]
        words = [i.encode() for i in ids] + ([bytes(self.data)] if member is None else [])
        marks = {f"SCRUBJAY_POD={i}".encode() for i in ids}
        found: list[int] = []
        for pid in among:
            if pid == os.getpid():
                continue
            command = command_of(pid)
            if any(word in command for word in words) or marks.intersection(environment_of(pid).split(b"\0")):
                found.append(pid)
        return found

    def keepers(self, member: Member) -> list[int]:
        """The living keepers of one pod; there should be one."""
        folder = bytes(member.pod.folder)
        return [pid for pid in pids() if _KEEPER in (command := command_of(pid)) and folder in command.split(b"\0")]

    def finish(self, *members: Member, grace_ms: int = 5000) -> None:
        """End pods in order and return when their keepers are gone."""
        ask_to_end((member.pod for member in members), grace_ms=grace_ms)
        for member in members:
            eventually(lambda: not member.pod.alive, f"{member.name} ended")  # noqa: B023

    def assert_clean(self, *members: Member) -> None:
        """Wait until the tapes of pods that have ended were sealed by themselves; then ``verify`` calls them clean."""
        # Not before: a tape that is verified while it is sealed may be called unanchored.
        self.await_sealed(*members)
        names = [member.name for member in members]
        assert self.cli("verify", *names).stdout == "".join(f"{name}: clean\n" for name in names)

    def await_sealed(self, *members: Member) -> None:
        """Return when the tapes of pods were sealed by themselves."""
        for member in members:
            self.eventually(lambda: member.sealed, f"{member.name} was sealed")  # noqa: B023

    def eventually(self, condition: Callable[[], object], what: str, *, within_s: float = DEADLINE_S) -> None:
        """Wait until something is so that sealers are needed for, or in the way of; they hurry meanwhile."""

        def is_so() -> bool:
            if condition():
                return True
            self._hurry()
            return False

        eventually(is_so, what, within_s=within_s)

    def _hurry(self) -> None:
        for pid in self._processes(pid for pid in pids() if takes_idle_time(pid)):
            hurry(pid)

    def close(self) -> None:
        """End everything, and see to it that nothing is left; what should have ended by itself is a failure."""
        for service in self.services:
            service.close()
        for onlooker in self.onlookers:
            if onlooker.process.poll() is None:
                onlooker.end()
            else:
                onlooker.wait()
        for member in self.members:
            if member.keeper_pid and state_of(member.keeper_pid) == "T":
                kill(member.keeper_pid, signal.SIGCONT)
        try:
            self.finish(*self.members, grace_ms=0)
            deadline = time.monotonic() + DEADLINE_S
            while self.processes() and time.monotonic() < deadline:
                for pid in self._sealers():
                    hurry(pid)  # dying takes time too
                    kill(pid)
                time.sleep(0.01)
        finally:
            # A sealer between fork and exec has no command yet; whatever was not seen above is ended here.
            found = {pid: command_of(pid) for pid in self.processes()}
            for pid in found:
                hurry(pid)
                kill(pid)
            left = {
                pid: command.replace(b"\0", b" ").decode("utf-8", "replace")
                for pid, command in found.items()
                if command and self._sealing not in command
            }
        assert not left, f"processes of the fleet were left: {left}"
        self.eventually(lambda: not self.processes(), "what was killed is gone")
        eventually(lambda: not self._sockets & unix_sockets(), "its sockets are gone")
        eventually(lambda: not self._held_terminals(), "its terminals are gone")

    @property
    def _sealing(self) -> bytes:
        """What is in the command line of a sealer of this fleet."""
        return b"\0" + bytes(self.data) + b"\0seal\0"

    def _sealers(self) -> list[int]:
        return [pid for pid in self.processes() if self._sealing in command_of(pid)]

    def _held_terminals(self) -> set[int]:
        """Those of the fleet's terminals that still exist and that nobody else has been given since."""
        left = {number for number in self._terminals if Path(f"/dev/pts/{number}").exists()}
        if not left:
            return left
        others: set[int] = set()
        for pid in pids():
            if pid != os.getpid():
                with suppress(OSError):
                    others |= terminals_of(pid)
        return left - others


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def open_fleet(data: Path, logs: Path) -> Generator[Fleet]:
    """An empty fleet that is closed at the end, however that comes."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    logs.mkdir(parents=True, exist_ok=True)
    fleet = Fleet(data, logs)
    try:
        yield fleet
    finally:
        fleet.close()
