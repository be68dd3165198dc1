"""Some viewers of one live pod in a process of their own: ``python -m benchmarks.fleet.audience``.

It is told what to do as JSON, a line each on stdin: whom to watch, then where the tape has ended. It answers on stdout
when every viewer has its first screen, and with what they saw when they have come to the end.
"""

from __future__ import annotations

import hashlib
import json
import select
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from benchmarks.family import CommandFailed
from benchmarks.fleet.live_socket import BINARY, HEADER_BYTES, KEYFRAME, PING, LiveSocket, screen_header
from benchmarks.fleet.stamps import made_ns

_END_WITHIN_S = 30.0
_LOOK_EVERY = 8  # messages of which one is searched for stamps
_WARM_UP_NS = 1_000_000_000  # after the first stamp, in which lags are not counted


@dataclass(slots=True)
class Seen:
    """What the viewers of one process saw."""

    offsets: list[int] = field(default_factory=list[int])  #: of the last that each was shown
    lags_us: list[int] = field(default_factory=list[int])  #: from the making of an update to its arrival
    messages: int = 0
    received_bytes: int = 0
    keyframes: int = 0
    proof_after: int = 0  #: the first viewer's last keyframe
    proof: str = ""  #: SHA-256 of all output it was shown after that
    cpu_s: float = 0.0  #: of this process, after the first screens


class _Viewer:
    def __init__(self, live: LiveSocket, seen: Seen, *, proving: bool) -> None:
        self.live, self._seen, self._proving = live, seen, proving
        self.offset = -1
        self._count = 0
        self._warm_ns = 0
        self.digest = hashlib.sha256()

    def read(self) -> None:
        data, spans = self.live.read()
        now_ns = time.monotonic_ns()
        for opcode, start, end in spans:
            if opcode == PING:
                self.live.answer_ping()
            if opcode != BINARY:
                continue
            kind, self.offset = screen_header(data, start)
            self._seen.messages += 1
            self._seen.received_bytes += end - start
            if kind == KEYFRAME:
                self._begin()
                continue
            self._count += 1
            if self._proving:
                self.digest.update(data[start + HEADER_BYTES : end])
            if self._count % _LOOK_EVERY == 0:
                self._note_lags(made_ns(data[start:end]), now_ns)

    def _note_lags(self, made: list[int], now_ns: int) -> None:
        if made and not self._warm_ns:
            self._warm_ns = made[0] + _WARM_UP_NS
        self._seen.lags_us += [(now_ns - then_ns) // 1000 for then_ns in made if then_ns > self._warm_ns]

    def _begin(self) -> None:
        self._seen.keyframes += 1
        if self._proving:
            self._seen.proof_after = self.offset
            self.digest = hashlib.sha256()


class Audience:
    """All of them."""

    def __init__(self, address: tuple[str, int], token: str, pod: str, count: int) -> None:
        self._seen = Seen()
        self._poll = select.epoll()
        self._viewers: dict[int, _Viewer] = {}
        for number in range(count):
            live = LiveSocket(address, token, pod)
            self._viewers[live.socket.fileno()] = _Viewer(live, self._seen, proving=number == 0)
            self._poll.register(live.socket.fileno(), select.EPOLLIN)

    def await_screens(self) -> None:
        """Until everybody has one."""
        if not self._run_until(lambda: all(viewer.offset >= 0 for viewer in self._viewers.values())):
            raise CommandFailed("not every viewer was given a screen")
        self._seen.cpu_s = -time.process_time()

    def watch(self) -> int:
        """Until told where the tape ends."""
        self._poll.register(0, select.EPOLLIN)
        while not self._look(0.1):
            continue
        return int(json.loads(sys.stdin.readline())["end"])

    def await_end(self, end: int) -> Seen:
        """Until everybody is there, or it takes too long."""
        self._run_until(lambda: all(viewer.offset >= end for viewer in self._viewers.values()))
        seen = self._seen
        seen.offsets = [viewer.offset for viewer in self._viewers.values()]
        seen.proof = next(iter(self._viewers.values())).digest.hexdigest()
        seen.cpu_s += time.process_time()
        return seen

    def _run_until(self, done: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + _END_WITHIN_S
        while not done():
            if time.monotonic() > deadline:
                return False
            self._look(0.05)
        return True

    def _look(self, within_s: float) -> bool:
        """Let everybody read who can; whether something was said to us."""
        told = False
        for fd, _ in self._poll.poll(within_s):
            if fd == 0:
                told = True
            else:
                self._viewers[fd].read()
        return told


def main() -> None:
    """Watch as told."""
    task = json.loads(sys.stdin.readline())
    audience = Audience((task["host"], task["port"]), task["token"], task["pod"], task["count"])
    audience.await_screens()
    print(json.dumps({"ready": True}), flush=True)
    end = audience.watch()
    print(json.dumps(asdict(audience.await_end(end))), flush=True)


if __name__ == "__main__":
    main()
