"""One pod, and everybody who could want something of it, each with what they were granted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from scrubjay.fleet.access import Principal
from scrubjay.pods.pod import Pod
from scrubjay.server.access_table import Method
from scrubjay.tape.record import Json
from tests.support.guarded_server import UPGRADE, Answer, ask
from tests.support.in_process_up import InProcessUp
from tests.support.mcp_client import MODERN_VERSION, Raw, connected
from tests.up.agents import Agent

Who = Literal[
    "operator",
    "viewer",
    "runner",
    "itself",
    "reader",
    "writer",
    "colleague",
    "asker",
    "neighbour",
    "former",
    "stranger",
    "outside reader",
    "outside stranger",
    "nobody",
]
"""Who comes.

People, a runner, the pod's own agent; agents of other pods: bound to it with ``terminal:read``, with ``terminal:write``
alone, with both, with a binding that is pending, in a channel with it and not bound, bound once, and with nothing;
agents outside pods with ``terminal:read`` and with nothing; and one without a token.
"""
EVERYBODY: tuple[Who, ...] = get_args(Who)
STRANGERS: tuple[Who, ...] = ("former", "stranger", "outside stranger")
"""Those for whom the pod does not exist."""

TARGET = "quarry"
SHELL = ("bash", "--norc", "-c", 'stty -echo -icanon; echo ready; while read -r line; do echo "got $line"; done')
_IN_PODS: tuple[Who, ...] = ("reader", "writer", "colleague", "asker", "neighbour", "former", "stranger")
_SCOPES: dict[Who, tuple[str, ...]] = {
    "reader": ("terminal:read",),
    "writer": ("terminal:write",),
    "colleague": ("terminal:read", "terminal:write"),
    "former": ("terminal:read", "terminal:write"),
    "outside reader": ("terminal:read",),
}


@dataclass(frozen=True, slots=True)
class AccessMatrix:
    """The pod, and who comes."""

    up: InProcessUp
    target: Pod
    tokens: dict[Who, str | None]

    async def come(self, who: Who, method: Method, path: str, body: Json | None = None) -> Answer:
        """Ask for something over the network; a WebSocket is only knocked for."""
        return await come(self.up, self.tokens[who], method, path, body)

    @asynccontextmanager
    async def agent(self, who: Who) -> AsyncGenerator[Agent]:
        """Somebody who calls tools."""
        token = self.tokens[who]
        assert token is not None
        async with connected(self.up.server.url, token) as http:
            yield Agent(who, Raw(http, MODERN_VERSION), token)

    def namings(self) -> dict[str, str]:
        """How the pod may be called, and for each what is as long and calls nobody."""
        return {
            self.target.id: "z" * 26,
            TARGET: "nobody",
            TARGET[:4]: "nobo",
            self.target.id[:20]: "z" * 20,
        }


async def come(up: InProcessUp, token: str | None, method: Method, path: str, body: Json | None = None) -> Answer:
    """Ask for something over the network; a WebSocket is only knocked for."""
    port = int(up.server.url.rpartition(":")[2])
    headers = [("Host", f"127.0.0.1:{port}")]
    headers += [("Authorization", f"Bearer {token}")] if token is not None else []
    headers += [("Content-Type", "application/json")] if body is not None else []
    headers += UPGRADE if method == "WEBSOCKET" else ()
    content = b"" if body is None else json.dumps(body).encode()
    connection = await asyncio.open_connection("127.0.0.1", port)
    return await ask(connection, "GET" if method == "WEBSOCKET" else method, path, headers, content)


async def bind(up: InProcessUp, who: str, target: str, *scopes: str, accept: bool = True) -> str:
    """Let an agent have scopes on a pod, or only ask for them; the binding's id."""
    coordination = up.server.coordination
    actor = coordination.reception.actor(_PERSON)
    asked = await coordination.bindings.request(actor, initiator=who, target=target, scopes=list(scopes), accept=accept)
    return str(asked["id"])


async def unbind(up: InProcessUp, binding: str) -> None:
    """End a binding."""
    coordination = up.server.coordination
    await coordination.bindings.unbind(coordination.reception.actor(_PERSON), binding)


_PERSON = Principal("local", "operator", "local")


@asynccontextmanager
async def open_neighbourhood(up: InProcessUp) -> AsyncGenerator[AccessMatrix]:
    """Everybody, while inside."""
    async with AsyncExitStack() as stack:

        async def start(name: str, *argv: str) -> Pod:
            pod = await up.start(*argv, name=name)
            stack.push_async_callback(up.stop, pod)
            return pod

        target = await start(TARGET, *SHELL)
        tokens: dict[Who, str | None] = {"nobody": None, "itself": await up.token("pod", pod=target.id)}
        for role in ("operator", "viewer", "runner"):
            tokens[role] = await up.token(role, name=f"the-{role}")
        for who in _IN_PODS:
            tokens[who] = await up.token("pod", pod=(await start(who, "sleep", "1000")).id)
        for who in ("outside reader", "outside stranger"):
            tokens[who] = await up.token("agent", name=who)
        await _settle(up)
        yield AccessMatrix(up, target, tokens)


async def _settle(up: InProcessUp) -> None:
    bound = {who: await bind(up, who, TARGET, *scopes) for who, scopes in _SCOPES.items()}
    await unbind(up, bound["former"])
    await bind(up, "asker", TARGET, "terminal:read", "terminal:write", accept=False)
    coordination = up.server.coordination
    actor = coordination.reception.actor(_PERSON)
    await coordination.channels.create(actor, "yard", members=["neighbour", TARGET])
