"""``scrubjay up`` as a process on a port that stays, killed and started again."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from scrubjay.tape.record import Json
from tests.support.services import Service


class Server:
    """A server, and a token for it."""

    def __init__(self, service: Service, port: int) -> None:
        self.service, self.data = service, service.data
        self.url = f"http://127.0.0.1:{port}"
        self.token = self.new_token("operator", "alice")

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> Generator[Server]:
        """Run one, and end it on the way out."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        service = Service(folder / "data", ["up", "--port", str(port)], folder / "log", dict(os.environ))
        service.start()
        try:
            yield cls(service, port)
        finally:
            service.close()

    def new_token(self, role: str, name: str) -> str:
        """Somebody new."""
        answer = cast(Json, self.service.client.post("/api/v1/tokens", {"role": role, "name": name}))
        return str(answer["token"])

    def restart(self) -> None:
        """Kill it with -9 and start it again."""
        self.service.kill()
        self.service.start()
