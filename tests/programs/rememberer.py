"""A client of the official SDK that adds numbered memories as fast as it can, and comes back after whatever happens.

``python -P rememberer.py`` loads the SDK once, which takes a second, and forks a process of its own for each line of
JSON on its standard input (a ``Life``); it answers with that process's number.

What a life asks for and is answered goes to its journal, a line each, before and after: the next life reads there how
far the one before had come, as an agent reads its own transcript. A memory that was asked for and not acknowledged is
asked for again by the same key, and nothing else is.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

Transport = Literal["legacy", "modern", "stdio"]

_AGAIN_S, _GIVE_UP_S = 0.05, 90.0
_ANSWER_S = 90.0


@dataclass(frozen=True, slots=True)
class Life:
    """How one process is to live."""

    transport: Transport
    url: str
    token: str
    journal: str
    name: str  #: of the connection, where it has one
    bridge: list[str]  #: the command that speaks over standard input and output
    session: str | None = None  #: the one to come back to
    by_parameter: bool = False  #: by a header or a variable alone, without calling a tool


class Refused(Exception):
    """A tool has said no."""


class _Journal:
    """What was asked for and what came of it."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.asked = self.known = 0
        with open(path) as file:
            for line in file.read().split("\n")[:-1]:
                told = json.loads(line)
                self.asked = max(self.asked, told.get("asks", 0))
                self.known = max(self.known, told.get("has", 0))

    def note(self, **told: object) -> None:
        """Keep something; when this returns, a kill does not undo it."""
        os.write(self._file, json.dumps(told).encode() + b"\n")

    def ask(self) -> int:
        """The number to ask for: the one that was not answered, or the next."""
        self.asked = self.known + 1
        self.note(asks=self.asked)
        return self.asked

    def have(self, number: int, **answer: object) -> None:
        """It was answered."""
        self.known = number
        self.note(has=number, **answer)


def arguments_of(number: int) -> dict[str, Any]:
    """A memory: the same for the same number."""
    return {
        "prompt": f"number {number}",
        "response": f"word {number} " * (number % 40 + 1),
        "idempotency_key": f"key {number}",
    }


@asynccontextmanager
async def _connected(life: Life, *, by_parameter: bool) -> AsyncGenerator[Client]:
    if life.transport == "stdio":
        environ = {name: value for name, value in os.environ.items() if not name.startswith("SCRUBJAY_")}
        environ["SCRUBJAY_TOKEN"] = life.token
        if by_parameter and life.session is not None:
            environ["SCRUBJAY_SESSION"] = life.session
        parameters = StdioServerParameters(command=life.bridge[0], args=life.bridge[1:], env=environ)
        # Both eras come over it, too.
        mode: Literal["auto", "legacy"] = "legacy" if life.name.endswith(("1", "3", "5", "7", "9")) else "auto"
        async with Client(parameters, mode=mode) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {life.token}"}
    if life.transport == "modern":  # who has no protocol session says which connection it is
        headers["Scrubjay-Connection"] = life.name
    if by_parameter and life.session is not None:
        headers["Scrubjay-Session"] = life.session
    async with (
        httpx2.AsyncClient(headers=headers, timeout=_ANSWER_S, verify=False) as http,
        Client(
            streamable_http_client(f"{life.url}/mcp", http_client=http),
            mode="legacy" if life.transport == "legacy" else "auto",
        ) as client,
    ):
        yield client


async def _call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    answer = cast("dict[str, Any]", result.structured_content)
    if result.is_error:
        raise Refused(f"{tool}: {answer}")
    return answer


async def _come_back(client: Client, life: Life, journal: _Journal) -> None:
    answer = await _call(client, "resume_session", session_id=life.session, takeover=life.session is not None)
    last = answer["memories"][-1]["prompt"] if answer["memories"] else None
    journal.note(
        back=answer["resumed"],
        session=answer["session_id"],
        epoch=answer["epoch"],
        last_seq=answer["last_seq"],
        last=last,
        known=journal.known,
        asked=journal.asked,
    )


async def _remember(client: Client, journal: _Journal) -> None:
    while True:
        number = journal.ask()
        try:
            answer = await _call(client, "add_memory", **arguments_of(number))
        except MCPError as error:  # nobody knows whether it was done
            journal.note(cut=str(error))
            await asyncio.sleep(_AGAIN_S)
            continue
        journal.have(
            number,
            seq=answer["seq"],
            session=answer["session_id"],
            epoch=answer["epoch"],
            repeated=answer.get("repeated", False),
            warning=answer.get("warning"),
        )


async def _live(life: Life, journal: _Journal) -> None:
    journal.note(begins=os.getpid(), protocol=life.transport, by_parameter=life.by_parameter)
    by_parameter = life.by_parameter
    until = asyncio.get_running_loop().time() + _GIVE_UP_S
    while True:
        try:
            async with _connected(life, by_parameter=by_parameter) as client:
                journal.note(version=str(client.protocol_version))
                if not by_parameter:
                    await _come_back(client, life, journal)
                await _remember(client, journal)
        except* Refused:
            raise
        except* Exception as group:  # the server was killed, in one of the many ways in which the SDK says so
            journal.note(cut=repr(group.exceptions[0]))
            if asyncio.get_running_loop().time() > until:
                raise
        by_parameter = False  # whoever had the session was this very process a moment ago
        await asyncio.sleep(_AGAIN_S)


def _fork(life: Life) -> int:
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    journal = _Journal(life.journal)
    try:
        asyncio.run(_live(life, journal))
    except BaseException as error:  # noqa: BLE001 - the test judges it
        journal.note(failed=repr(error), why=[str(each) for each in getattr(error, "exceptions", ())])
    finally:
        os._exit(1)


def main() -> None:
    """Bring forth a process for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        print(json.dumps({"pid": _fork(Life(**json.loads(line)))}), flush=True)


if __name__ == "__main__":
    main()
