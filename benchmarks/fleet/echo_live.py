"""Key-to-echo latency as a browser sees it: through the server's WebSocket, and through ttyd's."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from websockets.sync.server import ServerConnection, serve

from benchmarks.family import CommandFailed
from benchmarks.fleet.server import Server, running_server, wait_until
from benchmarks.plan import PEERS, Plan
from benchmarks.report import Report, Table, Target, percentile

RATIO_LIMIT = 1.2
SAMPLES = 1000
_BLOCK = 25  # keys on one way before the next: alone in the caches it would be faster than it is among others
_PAUSE_MS = 5  # between two keys, so that everybody sleeps again as between the keys of a person
_KEYS = tuple(b"qvwxyz")  # no letter that ends a common escape sequence
_GIVE_UP_MS = 10_000
_DONE_WITHIN_S = 300.0
_DRIVER = Path(__file__).with_suffix(".mjs")
_PACKAGES = _DRIVER.parent.parent.parent / "tests" / "js" / "node_modules"

# The terminal itself echoes each key, with no end to the line: the same work for everybody, and none for a program.
_PROGRAM = ("sh", "-c", "stty -icanon && exec cat >/dev/null")

_TTYD, _OURS, _BARE = "ttyd", "Scrubjay", "a bare WebSocket that sends back"


def measure(plan: Plan) -> Report:
    """Type on all ways in turns from one page of one browser, so that what disturbs one disturbs all."""
    browser, node = shutil.which("chromium"), shutil.which("node")
    if browser is None or node is None or not (_PACKAGES / "playwright-core").exists():
        raise CommandFailed("no Chromium, node or npm packages; scripts/install-peers gets them")
    with running_server(plan) as server, _bare_echo() as bare, _ttyd(plan) as ttyd:
        ways: dict[str, object] = {_BARE: {"protocol": "bare", "url": bare}}
        if ttyd is not None:
            ways[_TTYD] = {"protocol": "ttyd", "url": ttyd}
        ways[_OURS] = {"protocol": "scrubjay", "url": _live_url(server)}
        task: dict[str, object] = {
            "executablePath": browser,
            "address": server.url,
            "login": server.login_link(),
            "ways": ways,
            "keys": _KEYS,
            "samples": SAMPLES,
            "block": _BLOCK,
            "pauseMs": _PAUSE_MS,
            "giveUpMs": _GIVE_UP_MS,
        }
        found = _type(node, task)
    return _report(found)


def _report(found: dict[str, list[float]]) -> Report:
    ttyd = percentile(found[_TTYD], 50) if _TTYD in found else None
    rows = [
        (
            name,
            *(percentile(taken_ms, percent) for percent in (50, 95, 99)),
            percentile(taken_ms, 50) / ttyd if ttyd is not None else None,
        )
        for name, taken_ms in found.items()
    ]
    columns = ("way", "p50 ms", "p95 ms", "p99 ms", "p50 to ttyd")
    notes = () if ttyd is not None else ("ttyd is missing; scripts/install-peers gets it",)
    report = Report("echo-live", [Table(f"key to echo in Chromium, {SAMPLES} keys each", columns, rows, notes)])
    if ttyd is not None:
        ratio = percentile(found[_OURS], 50) / ttyd
        report.targets.append(Target("key to echo in a browser, p50 against ttyd", ratio, RATIO_LIMIT, "times"))
    return report


def _live_url(server: Server) -> str:
    pod = server.start(*_PROGRAM)
    return f"{server.url.replace('http', 'ws', 1)}/api/v1/pods/{pod.id}/live"


def _type(node: str, task: dict[str, object]) -> dict[str, list[float]]:
    try:
        done = subprocess.run(
            [node, str(_DRIVER)], input=json.dumps(task).encode(), capture_output=True, timeout=_DONE_WITHIN_S
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"typing in a browser was not done in {_DONE_WITHIN_S:g} s") from error
    if done.returncode != 0:
        raise CommandFailed(f"typing in a browser failed: {done.stderr.decode(errors='replace').strip()[-300:]}")
    answer = json.loads(done.stdout, parse_int=float)
    assert answer["isolated"], "the page's clock is not exact"
    return answer["ms"]


@contextmanager
def _ttyd(plan: Plan) -> Generator[str | None]:
    """ttyd with the same program; its WebSocket's address, or None where there is no ttyd."""
    command = shutil.which("ttyd", path=str(PEERS)) or shutil.which("ttyd")
    if command is None:
        yield None
        return
    log = plan.folder / "ttyd.log"
    with log.open("wb") as err:
        argv = [command, "--writable", "--interface", "lo", "--port", "0", *_PROGRAM]
        process = subprocess.Popen(argv, env=dict(plan.environ), stdin=subprocess.DEVNULL, stdout=err, stderr=err)
    try:
        wait_until(lambda: _port_in(log) is not None or process.poll() is not None, 10, "ttyd")
        if (port := _port_in(log)) is None:
            raise CommandFailed(f"ttyd ended with {process.returncode}: {log.read_text()[-300:]}")
        yield f"ws://127.0.0.1:{port}/ws"
    finally:
        process.terminate()
        process.wait()
        log.unlink()


def _port_in(log: Path) -> str | None:
    found = re.search(r"Listening on port: (\d+)", log.read_text(errors="replace"))
    return None if found is None else found[1]


@contextmanager
def _bare_echo() -> Generator[str]:
    """What comes is sent back: the least that a browser and a socket take."""

    def send_back(connection: ServerConnection) -> None:
        for message in connection:
            connection.send(message)

    with serve(send_back, "127.0.0.1", 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
        finally:
            server.shutdown()
            thread.join()
