"""Joining a pod that has shown a lot already: from opening the connection to the first screen, and to what follows."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.family import CommandFailed
from benchmarks.fleet.live_socket import BINARY, KEYFRAME, LiveSocket, screen_header
from benchmarks.fleet.server import Server, running_server, wait_until
from benchmarks.fleet.stamps import made_ns
from benchmarks.plan import MB, Plan
from benchmarks.report import Cell, Report, Table, percentile
from scrubjay.pods.pod import Pod

JOINS = 50
SMALL_BYTES = MB
BURST_BYTES = 64 << 10  # between two joins: more than the server goes on using a keyframe for
TICKS_PER_S = 100
_FILLED_WITHIN_S = 600.0
_BURST_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class _Join:
    """Seconds from opening the connection, and the bytes of the first screen."""

    hello_s: float
    screen_s: float
    live_s: float
    screen_bytes: int


def measure(plan: Plan) -> Report:
    """Join both pods in turns: after something new was drawn, and at once again."""
    with running_server(plan) as server:
        token = server.make_token()
        pods = {
            f"{size / MB:g} MB of {stream}": _filled(server, stream, size)
            for stream, size in (("tui", SMALL_BYTES), ("tui", plan.size_bytes), ("log", plan.size_bytes))
        }
        anew: dict[str, list[_Join]] = {name: [] for name in pods}
        again: dict[str, list[_Join]] = {name: [] for name in pods}
        for number in range(JOINS + 1):
            for name, pod in pods.items():
                _draw_anew(server, pod)
                joins = _join(server, token, pod), _join(server, token, pod)
                if number:  # the first time everything is done for the first time
                    anew[name].append(joins[0])
                    again[name].append(joins[1])
    rows = [
        *(_row(f"{name}, screen made for it", joins) for name, joins in anew.items()),
        *(_row(f"{name}, screen just made", joins) for name, joins in again.items()),
    ]
    columns = (
        *("pod", "hello p50 ms", "first screen p50", "p95", "p99"),
        *("first live byte p50", "p99", "screen kB"),
    )
    notes = (
        f"the pods draw {TICKS_PER_S} small updates a second; live is the first of them that was made after dialling",
        f"screen made for it: {BURST_BYTES >> 10} KiB were drawn since the last viewer came",
    )
    return Report("late-join", [Table(f"joining a pod late, {JOINS} times each", columns, rows, notes)])


def _filled(server: Server, stream: str, size_bytes: int) -> Pod:
    """A pod that has shown so much, and goes on."""
    pod = server.start_speaker("fill", size_bytes, BURST_BYTES, TICKS_PER_S, stream=stream)

    def filled() -> bool:
        if not pod.alive:
            raise CommandFailed("the program of a pod has failed")
        return server.known_ends()[pod.id] >= size_bytes

    wait_until(filled, _FILLED_WITHIN_S, "a pod to show enough")
    return pod


def _draw_anew(server: Server, pod: Pod) -> None:
    before = server.known_ends()[pod.id]
    server.signal([pod])
    wait_until(
        lambda: server.known_ends()[pod.id] >= before + BURST_BYTES, _BURST_WITHIN_S, "a pod to draw its screen anew"
    )


def _join(server: Server, token: str, pod: Pod) -> _Join:
    began_ns = time.monotonic_ns()
    with _opened(server, token, pod) as live:
        hello_s, screen_s, screen_bytes = 0.0, 0.0, 0
        while True:
            data, spans = live.read()
            now_s = (time.monotonic_ns() - began_ns) / 1e9
            hello_s = hello_s or now_s
            for opcode, start, end in spans:
                if opcode != BINARY:
                    continue
                if screen_header(data, start)[0] == KEYFRAME:
                    screen_s, screen_bytes = now_s, end - start
                elif screen_s and any(made > began_ns for made in made_ns(data[start:end])):
                    return _Join(hello_s, screen_s, now_s, screen_bytes)


@contextmanager
def _opened(server: Server, token: str, pod: Pod) -> Generator[LiveSocket]:
    live = LiveSocket(server.address, token, pod.id)
    try:
        yield live
    finally:
        live.close()


def _row(name: str, joins: list[_Join]) -> tuple[Cell, ...]:
    screens, lives = [join.screen_s * 1e3 for join in joins], [join.live_s * 1e3 for join in joins]
    return (
        name,
        percentile([join.hello_s * 1e3 for join in joins], 50),
        *(percentile(screens, percent) for percent in (50, 95, 99)),
        *(percentile(lives, percent) for percent in (50, 99)),
        percentile([join.screen_bytes / 1e3 for join in joins], 50),
    )
