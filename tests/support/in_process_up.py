"""Server and runner as ``scrubjay up`` has them, in the loop of the test, with real pods."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

import httpx
from websockets.asyncio.client import ClientConnection, unix_connect

from scrubjay.cli.machinery import CATALOG, OpenServer, linked_locally, open_server, running_runner, shared_tapes
from scrubjay.ids import parse_pod_name
from scrubjay.pods.home import Home
from scrubjay.pods.launch import StartRequest, start_pod
from scrubjay.pods.pod import Pod
from scrubjay.settings import Settings, TypeMessages
from scrubjay.tape.record import Json
from scrubjay.wire.viewer import KEYFRAME, OUTPUT, decode_screen
from tests.support.catalogs import make_catalog
from tests.support.conditions import DEADLINE_S, until
from tests.support.http import unix_client
from tests.support.pods import end_pods

T = TypeVar("T")


class InProcessUp:
    """One machine with everything running."""

    def __init__(self, settings: Settings, server: OpenServer, http: httpx.AsyncClient) -> None:
        self.settings, self.server, self.http = settings, server, http
        self.home = Home(settings.data)
        self._socket = settings.data / "server.sock"

    async def start(self, *argv: str, name: str, size: tuple[int, int] = (80, 24), cwd: Path = Path("/")) -> Pod:
        """Start a program, as the command line does; returns when the fleet knows it."""
        request = StartRequest(argv=argv, cwd=cwd, cols=size[0], rows=size[1], name=parse_pod_name(name))
        pod = await asyncio.to_thread(start_pod, self.home, request, self.settings, os.environ)
        await until(lambda: self.is_running(pod) or self.has_ended(pod), f"{name} is in the fleet")
        return pod

    def has_ended(self, pod: Pod) -> bool:
        """Whether the fleet knows how it ended."""
        known = self.server.tower.pods.get(pod.id)
        return known is not None and known.report.complete

    def is_running(self, pod: Pod) -> bool:
        """Whether the fleet has it running."""
        known = self.server.tower.pods.get(pod.id)
        return known is not None and known.report.process == "running"

    async def stop(self, pod: Pod) -> None:
        """End a pod."""
        await self.post(f"/api/v1/pods/{pod.id}/stop", {"grace_s": 0})

    async def get(self, path: str, **query: str | int) -> object:
        """What the API says."""
        response = await self.http.get(path, params=query)
        assert response.status_code == 200, (path, response.status_code, response.text)
        return response.json()

    async def post(self, path: str, body: Json, **headers: str) -> Json:
        """Have something done."""
        response = await self.http.post(path, json=body, headers=headers)
        assert response.status_code in (200, 201), (path, response.status_code, response.text)
        return cast(Json, response.json())

    @asynccontextmanager
    async def look(self, path: str, token: str | None = None) -> AsyncGenerator[Onlooker]:
        """A WebSocket, over the unix socket; with a token as its owner."""
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        folder = os.open(self._socket.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            connecting = unix_connect(
                f"/proc/self/fd/{folder}/{self._socket.name}",
                f"ws://localhost{path}",
                additional_headers=headers,
                compression=None,
                max_size=None,
            )
            connection = await connecting
        finally:
            os.close(folder)
        async with connection:
            yield Onlooker(connection)

    async def events(self, pod: Pod | None = None, kind: str | None = None) -> list[Json]:
        """The fleet's changes, of a pod and a kind if given."""
        answer = cast(Json, await self.get("/api/v1/events", **({"pod": pod.id} if pod is not None else {})))
        found = cast(list[Json], answer["events"])
        return [event for event in found if kind is None or event["kind"] == kind]

    async def deeds(self) -> list[Json]:
        """What somebody has done: the fleet's changes but for those that pods make by themselves."""
        return [event for event in await self.events() if not str(event["kind"]).startswith("pod.")]

    async def token(self, role: str, **more: object) -> str:
        """A new token."""
        return str((await self.post("/api/v1/tokens", {"role": role, **more}))["token"])


class Onlooker:
    """One end of a WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.messages: list[Json] = []
        self.keyframes: list[bytes] = []
        self.output = bytearray()  #: since the last keyframe
        self.offset = 0
        self.size = (0, 0)

    async def next(self) -> Json | bytes:
        """The next message: JSON, or the bytes of a binary one."""
        message = await asyncio.wait_for(self.connection.recv(), DEADLINE_S)
        if isinstance(message, str):
            said = cast(Json, json.loads(message))
            self.messages.append(said)
            return said
        kind, self.offset, _, size, data = decode_screen(message)
        if kind == KEYFRAME:
            self.keyframes.append(data)
            self.size = size
            self.output.clear()
        else:
            assert kind == OUTPUT
            self.output += data
        return message

    async def until(self, condition: Callable[[], T]) -> T:
        """Take messages until something is so."""
        while not (found := condition()):
            await self.next()
        return found

    async def told(self, kind: str) -> Json:
        """The next message of a type."""
        while True:
            message = await self.next()
            if isinstance(message, dict) and message["type"] == kind:
                return message

    async def say(self, message: Json | bytes) -> None:
        """Send something."""
        await self.connection.send(message if isinstance(message, bytes) else json.dumps(message))

    def say_together(self, *messages: Json | bytes) -> None:
        """Send several things so that they arrive at once."""
        protocol = self.connection.protocol
        for message in messages:
            if isinstance(message, bytes):
                protocol.send_binary(message)
            else:
                protocol.send_text(json.dumps(message).encode())
        self.connection.transport.write(b"".join(protocol.data_to_send()))

    async def take_keyboard(self) -> int:
        """Take the keyboard; its epoch."""
        await self.say({"type": "take"})
        while True:
            told = await self.told("keyboard")
            if told["mine"]:
                return cast(int, told["epoch"])


@asynccontextmanager
async def open_in_process_up(
    data: Path, *, pods_go_on: bool = False, type_messages: TypeMessages = "agents", capture_turns: bool = True
) -> AsyncGenerator[InProcessUp]:
    """A machine with a data directory; its pods are ended with it, unless they are to go on without it."""
    settings = Settings(data=data, port=0, type_messages=type_messages, capture_turns=capture_turns)
    make_catalog(data / CATALOG)
    async with (
        open_server(settings, shared_tapes(settings)) as server,
        running_runner(settings, os.environ) as uplink,
        linked_locally(uplink, server),
        unix_client(data) as http,
    ):
        await server.serve()
        try:
            yield InProcessUp(settings, server, http)
        finally:
            if not pods_go_on:
                await asyncio.to_thread(end_pods, data)
