"""A Redis that syncs every write before it acknowledges it, as we do."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.family import CommandFailed
from benchmarks.fleet.server import wait_until

_UP_WITHIN_S = 10.0


def find_redis() -> str | None:
    """The program; None if it is not installed."""
    return shutil.which("redis-server") or shutil.which("redis-check-rdb")  # by another name it is the same program


class Line:
    """A connection to Redis."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rb")

    def ask(self, *words: object) -> object:
        """Have a command done; what it says."""
        encoded = [str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(encoded), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)]
        self._socket.sendall(b"".join(parts))
        return self._answer()

    def _answer(self) -> object:
        line = self._file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self._file.read(size + 2)[:-2]
        if kind == b"*":
            return None if int(rest) < 0 else [self._answer() for _ in range(int(rest))]
        if kind in (b"+", b":"):
            return rest
        raise CommandFailed(f"redis said {line.decode(errors='replace')!r}")

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()


@contextmanager
def running_redis(program: str, folder: Path) -> Generator[Path]:
    """The socket of one that runs while inside."""
    folder.mkdir()
    path = folder / "socket"
    settings = {"port": 0, "unixsocket": path, "dir": folder, "save": "", "appendonly": "yes", "appendfsync": "always"}
    argv = ["redis-server", *(part for name, value in settings.items() for part in (f"--{name}", str(value)))]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, executable=program, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(_answering(path), _UP_WITHIN_S, "redis-server")
        yield path
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def _answering(path: Path) -> Callable[[], bool]:
    def answers() -> bool:
        try:
            with closing(Line(path)) as line:
                return line.ask("PING") == b"PONG"
        except OSError:
            return False

    return answers
