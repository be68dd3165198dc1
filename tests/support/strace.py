"""Faults put into the system calls of a running process, by strace."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.conditions import DEADLINE_S, eventually
from tests.support.processes import is_alive, is_traced


@dataclass(frozen=True, slots=True)
class Tracing:
    """A strace that is at work."""

    log: Path

    def lines(self) -> list[str]:
        """What it has written so far, without the thread's number, unfinished calls left out."""
        found: list[str] = []
        for line in self.log.read_text(errors="replace").splitlines():
            _, _, call = line.partition(" ")
            if "<unfinished" not in call:
                found.append(call.strip())
        return found


@contextmanager
def tampered(
    pid: int, log: Path, *, trace: str, inject: Sequence[str] = (), path: str | None = None
) -> Generator[Tracing]:
    """Trace all threads of a process and put faults into its calls, until the block or the process ends.

    With a ``path``, only the calls on that file count.
    """
    words = ["strace", "-f", "-y", "-qq", "-o", str(log), "-e", f"trace={trace}"]
    for fault in inject:
        words += ["-e", f"inject={fault}"]
    if path is not None:
        words += ["-P", path]
    tracer = subprocess.Popen([*words, "-p", str(pid)], process_group=0, stderr=subprocess.PIPE, text=True)
    try:
        with suppress(FileNotFoundError, ProcessLookupError):  # a fault may have ended it by now
            eventually(lambda: is_traced(pid) or tracer.poll() is not None, "strace is attached")
        assert tracer.poll() is None or not is_alive(pid), tracer.communicate()[1]
        yield Tracing(log)
    finally:
        # strace 6.1 may wait for ever for a thread of a process that was killed, or is just being: then it can only
        # be killed too.
        tracer.send_signal(signal.SIGTERM if is_alive(pid) else signal.SIGKILL)
        try:
            tracer.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            tracer.kill()
            tracer.communicate(timeout=DEADLINE_S)
