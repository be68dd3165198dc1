"""The whole of it: ``scrubjay up`` as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.cli import Cli
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.forked_commands import ForkedCommand


@dataclass(frozen=True, slots=True)
class UpProcess:
    """A running ``scrubjay up``."""

    cli: Cli
    pid: int
    url: str
    login: str
    log: Path


@contextmanager
def open_up_process(cli: Cli) -> Generator[UpProcess]:
    """Run one on a data directory, and end it on the way out."""
    log, out = cli.work / "log", cli.work / "told"
    log.touch()
    out.write_bytes(b"")
    argv = ["scrubjay", "up", "--port", "0", "--json"]
    process = ForkedCommand(argv, environ=_environ(cli), log=log, out=out, cwd=cli.work)
    eventually(lambda: out.read_bytes().endswith(b"}\n") or process.poll() is not None, "it tells its address")
    told = json.loads(out.read_text())
    try:
        yield UpProcess(cli, process.pid, told["url"], told["login"], log)
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        assert process.wait() == 0


@contextmanager
def open_own_up_process(cli: Cli, *, token: str | None = None) -> Generator[UpProcess]:
    """The same in an interpreter of its own, for what the machine shows of a process: its words and environment."""
    log = cli.work / "log"
    # The command line takes a token from its environment, and so does a shell that starts the server.
    environ = _environ(cli) | ({"SCRUBJAY_TOKEN": token} if token else {})
    with (
        log.open("ab") as file,
        subprocess.Popen(
            [*cli.argv, "up", "--port", "0", "--json"],
            cwd=cli.work,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=file,
        ) as process,
    ):
        assert process.stdout is not None
        told = ""
        while not told.endswith("}\n"):
            told += process.stdout.readline().decode()
        said = json.loads(told)
        try:
            yield UpProcess(cli, process.pid, said["url"], said["login"], log)
        finally:
            process.terminate()
            assert process.wait(DEADLINE_S) == 0


def _environ(cli: Cli) -> dict[str, str]:
    return {**cli.env, "SCRUBJAY_LOG_LEVEL": "debug"}
