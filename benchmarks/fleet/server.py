"""``scrubjay up`` in a folder of its own, with pods that speak."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from benchmarks.family import CommandFailed, wait_for_calm
from benchmarks.plan import SCRUBJAY, Plan
from benchmarks.streams import COLS, ROWS, STREAMS
from scrubjay.cli.client import Client, login_link_of, pod_path
from scrubjay.errors import ScrubjayError
from scrubjay.ids import PodId
from scrubjay.keeper.processes import adopt_orphans, descendants
from scrubjay.pods.pod import Pod, read_pod

_SPEAKER = Path(__file__).with_name("speaker.py")
_STREAM_BYTES = 2_000_000  # of updates that a speaker begins again with when it is through
_UP_WITHIN_S = 60.0
_DOWN_WITHIN_S = 30.0
_AT_ONCE = 8  # requests
_SILENCE_S = 0.3  # in which a tape that grows would have


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a tape goes."""

    end: int
    known: int  #: to the server


class Server:
    """One that runs, with its runner."""

    def __init__(self, folder: Path, pid: int, streams: Path) -> None:
        self.folder, self.pid = folder, pid
        self.url = ""  #: known once it is up
        self.client = Client(None, None, folder / "server.sock")
        self._streams = streams
        self._numbers = count(1)

    @property
    def address(self) -> tuple[str, int]:
        """Where its TCP socket is."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def login_link(self) -> str:
        """For a browser, once."""
        return login_link_of(self.client)

    def make_token(self) -> str:
        """For one who may watch."""
        answer = cast(dict[str, str], self.client.post("/api/v1/tokens", {"role": "viewer", "name": "benchmark"}))
        return answer["token"]

    def start(self, *argv: str) -> Pod:
        """A pod of 120x40."""
        name = f"bench-{next(self._numbers)}"
        wanted: dict[str, object] = {"command": argv, "name": name, "cols": COLS, "rows": ROWS}
        answer = cast(dict[str, str], self.client.post("/api/v1/pods", wanted))
        pod = read_pod(self.folder / "pods" / answer["id"])
        assert pod is not None
        return pod

    def start_speaker(self, *how: object, stream: str = "tui") -> Pod:
        """A pod with a speaker; see there for how it may be told to speak."""
        path = self._streams / stream
        if not path.exists():
            STREAMS[stream](path, _STREAM_BYTES)
        return self.start(sys.executable, "-I", "-S", str(_SPEAKER), str(path), *map(str, how))

    def start_speakers(self, number: int, *how: object) -> list[Pod]:
        """Several of them, a few at a time."""
        first = self.start_speaker(*how)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            others = [threads.submit(self.start_speaker, *how) for _ in range(1, number)]
        return [first, *(other.result() for other in others)]

    def signal(self, pods: Iterable[Pod]) -> None:
        """SIGUSR1 for their programs."""

        def send(pod: Pod) -> None:
            self.client.post(pod_path(pod.id, "signal"), {"signal": "USR1"})

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(send, pods))

    def known_ends(self) -> dict[PodId, int]:
        """How far the server knows each tape to go."""
        pods = cast(list[dict[str, object]], self.client.get("/api/v1/pods"))
        return {PodId(str(pod["id"])): cast(int, pod["tape_bytes"] or 0) for pod in pods}

    def await_silence(self, pods: Sequence[Pod], within_s: float) -> list[Extent]:
        """Return when no tape grows any more and the server knows all of them, or it takes too long."""
        deadline = time.monotonic() + within_s
        while True:
            known = self.known_ends()
            found = [Extent(pod.tape().end, known[pod.id]) for pod in pods]
            time.sleep(_SILENCE_S)
            silent = all(pod.tape().end == extent.end == extent.known for pod, extent in zip(pods, found, strict=True))
            if silent or time.monotonic() > deadline:
                return found

    def figure(self, name: str) -> float:
        """One of ``/metrics``."""
        _, text = self.client.fetch("/metrics")
        found = re.search(rf"^{name} ([0-9.e+]+)$", text.decode(), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def stop_pods(self) -> None:
        """End all of them, by their keepers, whether the server lives or not."""
        folder = self.folder / "pods"
        pods = [pod for path in folder.iterdir() if (pod := read_pod(path)) is not None] if folder.exists() else []
        for pod in pods:
            with suppress(ScrubjayError), pod.connect() as keeper:
                keeper.send({"do": "stop", "author": "benchmark", "grace_ms": 0})
        wait_until(lambda: not any(pod.alive for pod in pods), _DOWN_WITHIN_S, "keepers to end")


@contextmanager
def running_server(plan: Plan, prepare: Callable[[Path], object] = lambda _: None) -> Generator[Server]:
    """A server in an empty folder; in the end it, its pods and the folder are gone. CommandFailed if it dies.

    ``prepare`` may put something into its data directory before.
    """
    adopt_orphans()
    folder = plan.folder / "run"
    (folder / "data").mkdir(0o700, parents=True)
    prepare(folder / "data")
    said, log = folder / "said.json", folder / "server.log"
    argv = [str(SCRUBJAY), "--data", str(folder / "data"), "up", "--port", "0", "--json"]
    with said.open("wb") as out, log.open("wb") as err:
        process = subprocess.Popen(argv, env=dict(plan.environ), stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    server = Server(folder / "data", process.pid, folder)
    try:
        server.url = _await_url(process, said)
        wait_until(lambda: server.figure("scrubjay_runners") > 0, _UP_WITHIN_S, "the runner")
        yield server
    finally:
        died = process.poll()
        server.stop_pods()
        _end(process)
        _end_leftovers()
        last_words = log.read_text(errors="replace").strip()[-1000:]
        shutil.rmtree(folder)
        if died is not None:
            raise CommandFailed(f"scrubjay up ended with {died}: {last_words}")


def _await_url(process: subprocess.Popen[bytes], said: Path) -> str:
    def is_up() -> bool:
        return process.poll() is not None or said.read_bytes().endswith(b"}\n")

    wait_until(is_up, _UP_WITHIN_S, "scrubjay up")
    return json.loads(said.read_bytes())["url"]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_DOWN_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def _end_leftovers() -> None:
    """End what is at work on the tapes still: sealers take only idle time, of which there may be none."""
    for pid in descendants(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for_calm()


def wait_until(done: Callable[[], bool], within_s: float, what: str) -> None:
    """Return when it is so; CommandFailed if it takes too long."""
    deadline = time.monotonic() + within_s
    while not done():
        if time.monotonic() > deadline:
            raise CommandFailed(f"waited {within_s:g} s for {what}")
        time.sleep(0.02)
