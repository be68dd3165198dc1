"""Pods with an agent that waits for prompts and keeps what it was told."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from scrubjay.fleet.access import Principal
from scrubjay.fleet.parties import session_party
from scrubjay.ids import SessionId, parse_pod_name
from scrubjay.pods.launch import StartRequest, start_pod
from scrubjay.pods.pod import Pod
from scrubjay.server.coordination.channels import Post
from scrubjay.store.messages import inbox_of
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, until
from tests.support.in_process_up import InProcessUp
from tests.support.paths import PROGRAMS

_PROGRAM = PROGRAMS / "listener.py"
_PERSON = Principal("token:test", "operator", "tester")


class Listener:
    """One of them."""

    def __init__(self, up: InProcessUp, pod: Pod, log: Path) -> None:
        self.up, self.pod, self._log = up, pod, log

    @property
    def heard(self) -> list[str]:
        """What it was told, in order."""
        return self._log.read_text().splitlines() if self._log.exists() else []

    async def hears(self, count: int, *, within_s: float = DEADLINE_S) -> list[str]:
        """Wait until it was told so much; all of it."""
        await until(lambda: len(self.heard) >= count, f"it hears {count}", within_s=within_s)
        return self.heard

    @property
    def activity(self) -> str | None:
        """What it does, as the server knows it."""
        status = self.up.server.tower.pods[self.pod.id].report.status
        return status.activity if status is not None else None

    async def becomes(self, activity: str) -> None:
        """Wait until it does that."""
        await until(lambda: self.activity == activity, f"it is {activity}")

    async def tell(self, text: str) -> Json:
        """Say something to it."""
        coordination = self.up.server.coordination
        actor = coordination.reception.actor(_PERSON)
        return await coordination.channels.post(actor, Post(text, to=self.pod.id))

    def typed(self) -> list[str]:
        """What the courier has typed, in order."""
        inputs = [record.typed() for record in self.pod.tape().records() if record.kind == Kind.INPUT]
        return [typed.data.decode() for typed in inputs if typed.author == "scrubjay:message"]

    async def deliveries(self) -> list[tuple[str, str | None]]:
        """How far its messages have come, and how, in order."""
        party = session_party(self.up.server.tower.pods[self.pod.id].report.session)
        found = await self.up.server.tower.database.read(
            lambda connection: inbox_of(connection, party, limit=10_000, everything=True)
        )
        return [(delivery.state, delivery.how) for delivery in found]

    async def has_all(self, count: int) -> None:
        """Wait until so many messages are known to have been typed."""
        deadline = asyncio.get_running_loop().time() + DEADLINE_S
        while (found := await self.deliveries()) != [("delivered", "typed")] * count:
            assert asyncio.get_running_loop().time() < deadline, found
            await asyncio.sleep(0.02)


async def start_listener(
    up: InProcessUp, name: str, folder: Path, *options: str, session: SessionId | None = None, agent: str | None = "x"
) -> Listener:
    """Start one and wait until it waits."""
    log = folder / f"{name}.log"
    argv = (sys.executable, "-I", "-S", str(_PROGRAM), str(log), *options)
    return await start_listening(up, name, log, *argv, session=session, agent=agent)


async def start_listening(
    up: InProcessUp, name: str, log: Path, *argv: str, session: SessionId | None = None, agent: str | None = "x"
) -> Listener:
    """Start any program and wait until it waits; ``agent`` says whether it is one that is known."""
    request = StartRequest(argv, Path("/"), 100, 30, name=parse_pod_name(name), session=session, agent=agent)
    pod = await asyncio.to_thread(start_pod, up.home, request, up.settings, os.environ)
    await until(lambda: up.is_running(pod), f"{name} is in the fleet")
    listener = Listener(up, pod, log)
    await listener.becomes("idle")
    return listener
