"""A pass for a pod that is about to be started here: its agent's way to the tools of this machine's server.

Asked for by hand over the unix socket, for to load a client for HTTP takes as long as all the rest of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from scrubjay.agents.endpoint import McpEndpoint
from scrubjay.cli.context import Context, say
from scrubjay.errors import BadId
from scrubjay.ids import PodId, parse_pod_id
from scrubjay.unix_sockets import dial

WITHIN_S = 1.0  # a server that hangs keeps nobody from starting a pod for longer
_ANSWER_MAX_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Pass:
    """The id to start a pod with, and where its agent finds the tools."""

    pod: PodId
    mcp: McpEndpoint


@contextmanager
def pass_for_pod(context: Context, *, wanted: bool = True) -> Generator[Pass | None]:
    """The pass for a pod that is started inside, given back if that fails; None where no server gives one."""
    path = context.settings.data / "server.sock"
    given = _ask(path) if wanted and context.settings.mcp else None
    try:
        yield given
    except BaseException:
        if given is not None:
            with suppress(OSError):  # then it is taken back when its hour is over
                _exchange(path, "DELETE", f"/api/v1/passes/{given.pod}")
        raise


def _ask(path: Path) -> Pass | None:
    try:
        answer = _exchange(path, "POST", "/api/v1/passes")
    except TimeoutError:
        say("scrubjay: the server does not answer, so the pod is started without its tools")
        return None
    except OSError:
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.split(b" ", 2)[1:2] != [b"201"]:  # too old for passes, or its disk is full
        return None
    try:
        said = cast("dict[str, object]", json.loads(body))
        return Pass(parse_pod_id(str(said["pod"])), McpEndpoint(str(said["url"]), str(said["token"])))
    except (ValueError, KeyError, TypeError, BadId):
        return None


def _exchange(path: Path, method: str, target: str) -> bytes:
    """Send a request and return the answer, head and body; TimeoutError or another OSError."""
    deadline = time.monotonic() + WITHIN_S
    request = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with dial(path, timeout_s=WITHIN_S) as connection:
        connection.sendall(request.encode())
        answer = bytearray()
        while len(answer) < _ANSWER_MAX_BYTES:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            portion = connection.recv(_ANSWER_MAX_BYTES)
            if not portion:
                break
            answer += portion
    return bytes(answer)
