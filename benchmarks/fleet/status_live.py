"""A hundred agents at their prompts: what watching them takes, and how soon it is known that one asks for something.

The peer is what can be built on tmux: every pane is captured twice a second, and its text is searched for the dialog.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from websockets.sync.client import ClientConnection, connect

from benchmarks.family import reap_ended, spent_cpu_s
from benchmarks.fleet.parts import SERVER, WORKERS, Parts
from benchmarks.fleet.server import Server, running_server, wait_until
from benchmarks.plan import Plan
from benchmarks.report import Cell, Report, Table, Target, percentile
from scrubjay.keeper.processes import adopt_orphans, descendants
from scrubjay.pods.pod import Pod

PODS = 100
BUSY_PODS, BYTES_PER_S, UPDATES_PER_S = 20, 20_000, 20
IDLE_S, PEER_IDLE_S = 30.0, 10.0
QUESTIONS = 100  # of each way of asking
_SETTLE_S = 25.0  # in which everything that time alone changes has changed
_SETTLE_WITHOUT_PODS_S = 3.0
_TOLD_WITHIN_S = 10.0
_POLL_S = 0.5
IDLE_MAX_PERCENT, TOLD_MAX_MS = 1.0, 500.0

_ASKER = Path(__file__).with_name("asker.py")


def measure(plan: Plan) -> Report:
    """Let them be, then let one after another ask; the same of tmux."""
    with running_server(plan) as server:
        without_pods = _cpu_percent(server, [], _SETTLE_WITHOUT_PODS_S)[SERVER]
        pods = [_start(server, plan.folder, "screen", number) for number in range(PODS)]
        idle = _cpu_percent(server, pods, _SETTLE_S) | {"server and runner, before there were pods": without_pods}
        reporting = _start(server, plan.folder, "program", PODS)
        seen_ms = _ask(server, pods[0], _log(plan.folder, 0))
        told_ms = _ask(server, reporting, _log(plan.folder, PODS))
        busy = server.start_speakers(BUSY_PODS, "pace", BYTES_PER_S, UPDATES_PER_S)
        server.signal(busy)
        busy_ms = _ask(server, pods[1], _log(plan.folder, 1))
    peer_idle, peer_ms = _measure_tmux(plan) if shutil.which("tmux") else (None, None)
    return _report(
        idle, {"seen on its screen": seen_ms, "told by OSC 7501": told_ms, "seen": busy_ms}, peer_idle, peer_ms
    )


def _report(
    idle: dict[str, float], lags: dict[str, list[float]], peer_idle: float | None, peer_ms: list[float] | None
) -> Report:
    report = Report("status-live")
    watching = idle[SERVER] + idle[WORKERS]
    rows: list[tuple[Cell, ...]] = [(name, percent, 1e3 * percent / PODS) for name, percent in idle.items()]
    if peer_idle is not None:
        rows.append(("peer: tmux and its captures", peer_idle, 1e3 * peer_idle / PODS))
    columns = ("process", "CPU % of a core", "for each pod, thousandths of a %")
    report.tables.append(Table(f"{PODS} agents at their prompts", columns, rows))
    seen, told, busy = lags.values()
    answers: list[tuple[Cell, ...]] = [
        _lag_row(f"seen on its screen, {PODS} idle pods", seen),
        _lag_row("told by OSC 7501 too", told),
        _lag_row(f"seen on its screen, {BUSY_PODS} pods draw {BYTES_PER_S // 1000} kB/s", busy),
    ]
    if peer_ms is not None:
        answers.append(_lag_row(f"peer: tmux, each pane captured every {_POLL_S * 1e3:g} ms", peer_ms))
    lag_columns = ("a question is", "questions", "p50 ms", "p99 ms", "worst ms")
    note = "from just before a program shows the question to the change's arrival at a listener of the fleet"
    report.tables.append(Table("how soon somebody knows", lag_columns, answers, (note,)))
    report.targets.append(Target(f"CPU of watching {PODS} idle pods", watching, IDLE_MAX_PERCENT, "% of a core"))
    report.targets += [
        Target(f"p99 until it is known that an agent asks, {name}", percentile(each, 99), TOLD_MAX_MS, "ms")
        for name, each in (("by its screen", seen), ("by its word", told), ("beside busy pods", busy))
    ]
    if peer_idle is not None and peer_ms is not None:
        report.targets.append(Target("ratio of CPU to the peer's, idle", watching / peer_idle, 0.1, "x"))
        report.targets.append(
            Target("ratio of p50 to the peer's", percentile(seen, 50) / percentile(peer_ms, 50), 1, "x")
        )
    return report


def _lag_row(name: str, lags_ms: list[float]) -> tuple[Cell, ...]:
    return name, len(lags_ms), percentile(lags_ms, 50), percentile(lags_ms, 99), max(lags_ms)


def _log(folder: Path, number: int) -> Path:
    return folder / f"asker-{number}.log"


def _argv(folder: Path, how: str, number: int) -> list[str]:
    return [sys.executable, "-I", "-S", str(_ASKER), how, str(_log(folder, number))]


def _start(server: Server, folder: Path, how: str, number: int) -> Pod:
    return server.start(*_argv(folder, how, number))


def _cpu_percent(server: Server, pods: list[Pod], settle_s: float) -> dict[str, float]:
    time.sleep(settle_s)
    parts = Parts(server.pid, pods)
    before, began = parts.cpu_s(), time.monotonic()
    time.sleep(IDLE_S)
    after, wall_s = parts.cpu_s(), time.monotonic() - began
    return {name: 100 * (after[name] - before[name]) / wall_s for name in after}


def _ask(server: Server, pod: Pod, log: Path) -> list[float]:
    """Let a pod ask again and again; how many milliseconds later each question is known."""
    heard = _Listener(server, pod)
    with heard.listening():
        for number in range(1, QUESTIONS + 1):
            server.signal([pod])
            wait_until(lambda number=number: len(heard.asked_ns) == number, _TOLD_WITHIN_S, "a question to be known")
            server.signal([pod])
            wait_until(lambda number=number: heard.went_on == number, _TOLD_WITHIN_S, "its end to be known")
    shown_ns = [int(line) for line in log.read_text().split()]
    log.unlink()
    return [(asked - shown) / 1e6 for shown, asked in zip(shown_ns, heard.asked_ns, strict=True)]


class _Listener:
    """Hears of the fleet's changes, as a page does."""

    def __init__(self, server: Server, pod: Pod) -> None:
        self._server, self._pod = server, pod
        self.asked_ns: list[int] = []
        self.went_on = 0  #: how often it did after a question

    @contextmanager
    def listening(self) -> Generator[None]:
        host, port = self._server.address
        headers = {"Authorization": f"Bearer {self._server.make_token()}"}
        with connect(f"ws://{host}:{port}/api/v1/fleet", additional_headers=headers, compression=None) as socket:
            socket.recv()  # that it has begun
            thread = threading.Thread(target=self._listen, args=(socket,), daemon=True)
            thread.start()
            yield
        thread.join()

    def _listen(self, socket: ClientConnection) -> None:
        for message in socket:
            now_ns = time.monotonic_ns()
            change = cast(dict[str, object], json.loads(message))
            if change.get("kind") != "pod.status" or change.get("pod") != self._pod.id:
                continue
            activity = cast(dict[str, object], change["data"]).get("activity")
            if activity == "waiting":
                self.asked_ns.append(now_ns)
            elif len(self.asked_ns) > self.went_on:
                self.went_on += 1


def _measure_tmux(plan: Plan) -> tuple[float, list[float]]:
    """CPU of a hundred panes that are captured, in percent; and how late that shows a question."""
    adopt_orphans()
    folder = plan.folder / "tmux"
    folder.mkdir()
    tmux = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null"]

    def run(*words: str) -> str:
        done = subprocess.run([*tmux, *words], env=dict(plan.environ), stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    run("new-session", "-d", "-x", "120", "-y", "40", *_argv(folder, "screen", 0))
    try:
        for number in range(1, PODS):
            run("new-window", "-d", *_argv(folder, "screen", number))
        panes = run("list-panes", "-s", "-F", "#{pane_id} #{pane_pid}").split()
        agents = dict(zip(panes[::2], map(int, panes[1::2]), strict=True))
        server_pid = int(run("display-message", "-p", "#{pid}"))
        idle = _poll_for(PEER_IDLE_S, server_pid, lambda: [run("capture-pane", "-p", "-t", pane) for pane in agents])
        first = next(iter(agents))
        return idle, _ask_tmux(agents[first], _log(folder, 0), lambda: run("capture-pane", "-p", "-t", first))
    finally:
        run("kill-server")
        wait_until(lambda: reap_ended() is None and not descendants(os.getpid()), _TOLD_WITHIN_S, "tmux to end")
        shutil.rmtree(folder)


def _poll_for(seconds: float, server_pid: int, poll: Callable[[], object]) -> float:
    """CPU of polling for a while, of tmux's server and of the commands, in percent of a core."""

    def spent_s() -> float:
        times = os.times()
        return spent_cpu_s(server_pid) + times.children_user + times.children_system

    before_s, began = spent_s(), time.monotonic()
    while time.monotonic() < began + seconds:
        due = time.monotonic() + _POLL_S
        poll()
        time.sleep(max(0.0, due - time.monotonic()))
    return 100 * (spent_s() - before_s) / (time.monotonic() - began)


def _ask_tmux(agent: int, log: Path, capture: Callable[[], str]) -> list[float]:
    found_ns: list[int] = []
    for number in range(QUESTIONS):
        captured = time.monotonic()
        time.sleep(_POLL_S * number / QUESTIONS)  # it may ask at any moment between two captures
        os.kill(agent, signal.SIGUSR1)
        found = False
        while not found:
            captured += _POLL_S
            time.sleep(max(0.0, captured - time.monotonic()))
            found = "Esc to cancel" in capture()
        found_ns.append(time.monotonic_ns())
        os.kill(agent, signal.SIGUSR1)
        while "Esc to cancel" in capture():
            time.sleep(0.01)
    shown_ns = [int(line) for line in log.read_text().split()]
    return [(found - shown) / 1e6 for shown, found in zip(shown_ns, found_ns, strict=True)]
