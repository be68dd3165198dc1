"""The whole of it: ``scrubjay up`` as a process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.conftest import Jay


@dataclass(frozen=True, slots=True)
class Up:
    """A running ``scrubjay up``."""

    jay: Jay
    pid: int
    url: str
    login: str
    log: Path


@contextmanager
def open_up(jay: Jay, *, token: str | None = None) -> Generator[Up]:
    """Run one on a data directory, and end it on the way out."""
    log = jay.work / "log"
    # The command line takes a token from its environment, and so does a shell that starts the server.
    environment = {**jay.env, "SCRUBJAY_LOG_LEVEL": "debug", **({"SCRUBJAY_TOKEN": token} if token else {})}
    with (
        log.open("ab") as file,
        subprocess.Popen(
            [*jay.argv, "up", "--port", "0", "--json"],
            cwd=jay.work,
            env=environment,
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
            yield Up(jay, process.pid, said["url"], said["login"], log)
        finally:
            process.terminate()
            assert process.wait(30) == 0
