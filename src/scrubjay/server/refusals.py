"""No, said in the same way everywhere: a status, a code for programs, a sentence and a hint for people."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from scrubjay.errors import ScrubjayError
from scrubjay.fleet.access import Role

# Nothing of a recording, a name or a title may act on the page, and no other page may hold this one.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)


class Refused(ScrubjayError):
    """A request that is not answered as it was asked."""

    def __init__(
        self, status: int, code: str, message: str, *, hint: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status, self.code, self.headers = status, code, dict(headers or {})
        super().__init__(message, hint=hint)


def not_allowed(role: Role) -> Refused:
    """The refusal of what nobody of a role may do."""
    return Refused(403, "not_allowed", f"the role {role} may not do that")


def error_body(code: str, message: str, hint: str | None = None) -> dict[str, dict[str, str | None]]:
    """What every error of the API looks like."""
    return {"error": {"code": code, "message": message, "hint": hint}}


def secured(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Response headers with those that every response has; a policy of its own can only narrow ours."""
    present = {name.lower() for name, _ in headers}
    added = [(name, value) for name, value in SECURITY_HEADERS if name not in present]
    return [*headers, *added, (b"content-security-policy", CONTENT_SECURITY_POLICY.encode())]


async def refuse(refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with a refusal; a WebSocket is refused before it is open."""
    if scope["type"] == "websocket":
        await receive()  # the connect
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": close_code(refused.status), "reason": refused.code})
            return
        await _answer(refused, send, "websocket.http.response")
        return
    await _answer(refused, send, "http.response")


def close_code(status: int) -> int:
    """The WebSocket close code that means an HTTP status."""
    return 4000 + status


async def _answer(refused: Refused, send: Send, kind: str) -> None:
    # As the application writes it, so that nobody can tell who has refused.
    text = json.dumps(
        error_body(refused.code, str(refused), refused.hint), ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    body = text.encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in refused.headers.items()),
    ]
    await send({"type": f"{kind}.start", "status": refused.status, "headers": secured(headers)})
    await send({"type": f"{kind}.body", "body": body})
