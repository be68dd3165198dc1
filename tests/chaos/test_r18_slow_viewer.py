"""R18: a viewer that takes nothing costs nobody anything; when it goes on it is live through one keyframe."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from scrubjay.server import web
from scrubjay.tape.record import Json
from scrubjay.wire.viewer import LATE
from tests.support.conditions import DEADLINE_S, eventually, until
from tests.support.fleet import Fleet, Member
from tests.support.in_process_up import open_in_process_up
from tests.support.paths import PROGRAMS
from tests.support.processes import kill, resident_kib, sockets_of
from tests.support.services import Service
from tests.support.tiers import sized

_STAMPER = PROGRAMS / "timestamp_printer.py"
_BYTES_PER_S = 1_000_000
_VIEWERS = sized(25, 25, 50)
_BUFFER_BYTES = 256 << 10  # of the one that is stopped: the kernel would let it grow to 6 MB while it reads fast
_WARM_S = sized(3, 3, 20)
_PHASE_S = sized(4, 4, 60)
_MEMORY_KIB = 1024
_STEADY_KIB = 128  # more in so short a time, and it still grows
_BEYOND_BYTES = 512 << 10  # that the server holds itself for a viewer: what was being sent when it stopped to read
_LIVE_S = 0.25  # a lag no larger is live
_UNSYNCED_US = 500_000  # the keeper's window of 200 ms and a sync


@dataclass(frozen=True, slots=True)
class _Message:
    """Something a viewer has received."""

    at_s: float
    kind: str
    size: int
    lag_s: float | None


class _Watcher:
    """Some viewers in a process of their own."""

    def __init__(self, url: str, token: str, count: int, *, buffer_bytes: int = 0) -> None:
        address = url.replace("http", "ws", 1)
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "watcher.py"), address, str(count), str(buffer_bytes)],
            stdout=subprocess.PIPE,
            env=os.environ | {"SCRUBJAY_TOKEN": token},
            text=True,
        )
        self.pid = self._process.pid

    def await_ready(self) -> None:
        """Return when all have their first keyframe."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def end(self) -> list[tuple[list[_Message], int | None]]:
        """Have them leave; what each has received, and what it was closed with."""
        kill(self.pid, signal.SIGTERM)
        return self.await_end()

    def await_end(self) -> list[tuple[list[_Message], int | None]]:
        """The same when the server closes all of them."""
        out, _ = self._process.communicate(timeout=DEADLINE_S)
        return [([_Message(*message) for message in seen["messages"]], seen["code"]) for seen in json.loads(out)]

    def close(self) -> None:
        """End it, if it was not."""
        if self._process.poll() is None:
            kill(self.pid)
            self._process.communicate()


@contextmanager
def _watching(url: str, token: str, count: int, *, buffer_bytes: int = 0) -> Generator[_Watcher]:
    watcher = _Watcher(url, token, count, buffer_bytes=buffer_bytes)
    try:
        watcher.await_ready()
        yield watcher
    finally:
        watcher.close()


@dataclass(frozen=True, slots=True)
class _Phase:
    """What was measured for a while."""

    began_s: float
    ended_s: float
    resident_kib: float
    unsynced_us: float
    bytes_per_s: float

    def lag_s(self, seen: Sequence[_Message]) -> float:
        """The worst of a hundred, in a second that is neither good nor bad."""
        seconds: dict[int, list[float]] = {}
        for message in seen:
            if message.lag_s is not None and self.began_s <= message.at_s < self.ended_s:
                seconds.setdefault(int(message.at_s - self.began_s), []).append(message.lag_s)
        return statistics.median(sorted(lags)[len(lags) * 99 // 100] for lags in seconds.values())


def _measure(up: Service, member: Member, seconds: float) -> _Phase:
    began, written = time.monotonic(), member.progress
    resident: list[int] = []
    unsynced: list[int] = []
    while time.monotonic() < began + seconds:
        resident.append(resident_kib(up.pid))
        unsynced.append(cast(int, (member.pod.observe().live or {})["unsynced_us"]))
        time.sleep(0.1)  # ten samples a second
    ended = time.monotonic()
    pace = (member.progress - written) / (ended - began)
    return _Phase(began, ended, statistics.median(resident), statistics.median(unsynced), pace)


def _warm_up(up: Service) -> None:
    """Return when the server has all it needs for its viewers: until then it grows by a megabyte or two by itself."""
    seen = [resident_kib(up.pid)]

    def is_steady() -> bool:
        time.sleep(_WARM_S)
        seen.append(resident_kib(up.pid))
        return seen[-1] - seen[-2] <= _STEADY_KIB

    eventually(is_steady, "its memory is steady", within_s=DEADLINE_S + 20 * _WARM_S)


def _start(fleet: Fleet) -> tuple[Service, Member, str, str]:
    """A server, a pod that shows much, where it is looked at, and a viewer's token."""
    up = fleet.up()
    address = eventually(lambda: re.search(r'"url": "([^"]*)"', up.log), "it says where it is")
    token = cast(Json, up.client.post("/api/v1/tokens", {"role": "viewer", "name": "test"}))["token"]
    words = (sys.executable, "-I", "-S", str(_STAMPER), str(_BYTES_PER_S), str(fleet.logs / "busy.log"))
    member = fleet.start("busy", *words)
    eventually(lambda: up.processes().get("busy") == "running", "it is in the fleet")
    return up, member, f"{address[1]}/api/v1/pods/busy/live?mode=watch", str(token)


@pytest.mark.alone
def test_r18_a_stopped_viewer_costs_nobody_anything_and_is_live_again_through_one_keyframe(fleet: Fleet) -> None:
    up, member, url, token = _start(fleet)
    with (
        _watching(url, token, _VIEWERS - 1) as others,
        _watching(url, token, 1, buffer_bytes=_BUFFER_BYTES) as stopped,
    ):
        _warm_up(up)
        without = [_measure(up, member, _PHASE_S) for _ in range(sized(1, 1, 2))]
        kill(stopped.pid, signal.SIGSTOP)
        beside = _measure(up, member, _PHASE_S)
        held = _queued_bytes(stopped.pid)
        kill(stopped.pid, signal.SIGCONT)
        continued = time.monotonic()
        afterwards = _measure(up, member, sized(2, 2, _PHASE_S))
        [(seen, code)] = stopped.end()
        all_seen = [message for one, _ in others.end() for message in one]

    after = [message for message in seen if message.at_s > continued]
    (keyframe,) = [index for index, message in enumerate(after) if message.kind == "keyframe"]
    backlog = sum(message.size for message in after[:keyframe])
    live_s = next(m.at_s for m in after[keyframe:] if m.lag_s is not None and m.lag_s < _LIVE_S) - continued
    # Before and after, for the machine may do something else meanwhile; and a server grows a little by itself.
    lag_s, lag_beside_s = max(phase.lag_s(all_seen) for phase in (*without, afterwards)), beside.lag_s(all_seen)
    drift_kib = without[-1].resident_kib - without[0].resident_kib
    grown_kib = beside.resident_kib - without[-1].resident_kib - drift_kib
    print(f"p99 lag of {_VIEWERS - 1} viewers {lag_s * 1000:.1f} ms, beside a stopped one {lag_beside_s * 1000:.1f} ms")
    print(f"server's memory {without[-1].resident_kib:.0f} KiB, beside a stopped one {grown_kib:+.0f} KiB")
    print(f"live {live_s:.3f} s after going on; {backlog} bytes before the keyframe, sockets held {held}")

    assert code is None
    assert grown_kib <= _MEMORY_KIB
    assert lag_beside_s <= lag_s * 1.1 + sized(50, 50, 2) / 1000
    assert beside.unsynced_us <= _UNSYNCED_US
    assert beside.bytes_per_s == pytest.approx(_BYTES_PER_S, rel=0.1)
    assert live_s <= 1
    assert backlog <= held + _BEYOND_BYTES < _PHASE_S * _BYTES_PER_S


def _queued_bytes(pid: int) -> int:
    """What the kernel holds for a process that does not read its one connection, on both sides."""
    mine = sockets_of(pid)
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ((here, there),) = {(row[1], row[2]) for row in rows if row[9] in mine}
    queues = {(row[1], row[2]): row[4].split(":") for row in rows}  # the kernel may list a socket twice
    return int(queues[here, there][1], 16) + int(queues[there, here][0], 16)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


@pytest.mark.anyio
async def test_r18_who_takes_nothing_for_too_long_is_closed_and_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "PING_EVERY_S", 0.2)
    monkeypatch.setattr(web, "SILENCE_MAX_S", 2.0)  # the third answers within it on a busy machine, too
    async with open_in_process_up(tmp_path) as up:
        words = (sys.executable, "-I", "-S", str(_STAMPER), str(_BYTES_PER_S), str(tmp_path / "busy.log"))
        pod = await up.start(*words, name="busy")
        quiet = await up.start("sleep", "1000", name="quiet")
        token, tower = await up.token("viewer"), up.server.tower
        urls = [f"{up.server.url}/api/v1/pods/{name}/live?mode=watch" for name in ("busy", "quiet", "busy")]
        watchers = [_Watcher(url, token, 1) for url in urls]
        try:
            await until(lambda: tower.viewers(pod.id) == 2 and tower.viewers(quiet.id) == 1, "they look")
            for watcher in watchers:
                await asyncio.to_thread(watcher.await_ready)
            for watcher in watchers[:2]:
                kill(watcher.pid, signal.SIGSTOP)
            await until(lambda: (tower.viewers(pod.id), tower.viewers(quiet.id)) == (1, 0), "they are closed")
            for watcher in watchers[:2]:
                kill(watcher.pid, signal.SIGCONT)
            closed = [await asyncio.to_thread(watcher.await_end) for watcher in watchers[:2]]
            codes = [code for one in (*closed, await asyncio.to_thread(watchers[2].end)) for _, code in one]
        finally:
            for watcher in watchers:
                watcher.close()

    assert codes == [LATE, LATE, None]


@pytest.mark.night("takes five and a half minutes")
def test_r18_who_takes_nothing_for_five_minutes_is_closed_and_told_so(fleet: Fleet) -> None:
    up, _, url, token = _start(fleet)
    with _watching(url, token, 1) as stopped:
        kill(stopped.pid, signal.SIGSTOP)
        began = time.monotonic()
        eventually(lambda: up.pods()["busy"]["viewers"] == 0, "it is closed", within_s=web.SILENCE_MAX_S + DEADLINE_S)
        took_s = time.monotonic() - began
        kill(stopped.pid, signal.SIGCONT)
        [(_, code)] = stopped.await_end()

    assert code == LATE
    assert took_s >= web.SILENCE_MAX_S
