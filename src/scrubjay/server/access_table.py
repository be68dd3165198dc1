"""What one must be allowed to do to come to each route.

A route that is not here is not reached by anybody; tests/server/test_s01_anonymous.py walks all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from scrubjay.fleet.access import Action
from scrubjay.server.limits import BODY_MAX_BYTES

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "WEBSOCKET"]

PUBLIC: Literal["public"] = "public"


@dataclass(frozen=True, slots=True)
class Access:
    """What one route needs."""

    action: Action | Literal["public"]
    pod: str | None = None  #: the path parameter that names a pod, if the route is about one
    body_max_bytes: int = BODY_MAX_BYTES


AccessTable = Mapping[tuple[Method, str], Access]


def _table(entries: Iterable[tuple[Method, str, Access]]) -> AccessTable:
    table: dict[tuple[Method, str], Access] = {}
    for method, template, access in entries:
        assert (method, template) not in table, f"{method} {template} is listed twice"
        table[method, template] = access
    return table


ACCESS: AccessTable = _table(
    [
        ("GET", "/healthz", Access(PUBLIC)),
        ("GET", "/login", Access(PUBLIC)),
        ("POST", "/logout", Access("know self")),
        ("GET", "/{path}", Access(PUBLIC)),
        ("GET", "/metrics", Access("look")),
        ("GET", "/api/v1/openapi.json", Access("know self")),
        ("GET", "/api/v1/pods", Access("look")),
        ("POST", "/api/v1/pods", Access("run")),
        ("GET", "/api/v1/pods/{pod}", Access("look", pod="pod")),
        ("DELETE", "/api/v1/pods/{pod}", Access("run", pod="pod")),
        ("POST", "/api/v1/pods/{pod}/input", Access("type", pod="pod")),
        ("POST", "/api/v1/pods/{pod}/resize", Access("control", pod="pod")),
        ("POST", "/api/v1/pods/{pod}/signal", Access("control", pod="pod")),
        ("POST", "/api/v1/pods/{pod}/mark", Access("type", pod="pod")),
        ("POST", "/api/v1/pods/{pod}/stop", Access("run", pod="pod")),
        ("PUT", "/api/v1/pods/{pod}/mute", Access("run", pod="pod")),
        ("DELETE", "/api/v1/pods/{pod}/mute", Access("run", pod="pod")),
        ("GET", "/api/v1/pods/{pod}/status", Access("look", pod="pod")),
        ("GET", "/api/v1/pods/{pod}/status/history", Access("look", pod="pod")),
        ("GET", "/api/v1/pods/{pod}/screen", Access("look", pod="pod")),
        ("GET", "/api/v1/pods/{pod}/timeline", Access("look", pod="pod")),
        ("GET", "/api/v1/pods/{pod}/tape", Access("look", pod="pod")),
        # Not by a binding: to see a terminal is not to see files.
        ("GET", "/api/v1/pods/{pod}/checkpoints", Access("look")),
        ("GET", "/api/v1/pods/{pod}/diff", Access("look")),
        ("GET", "/api/v1/pods/{pod}/patch", Access("look")),
        ("POST", "/api/v1/pods/{pod}/fork", Access("run", pod="pod")),
        ("WEBSOCKET", "/api/v1/pods/{pod}/live", Access("look", pod="pod")),
        ("WEBSOCKET", "/api/v1/pods/{pod}/replay", Access("look", pod="pod")),
        ("WEBSOCKET", "/api/v1/fleet", Access("look")),
        ("WEBSOCKET", "/api/v1/runner", Access("join")),
        ("GET", "/api/v1/events", Access("look")),
        ("GET", "/api/v1/runners", Access("look")),
        ("GET", "/api/v1/bindings", Access("look")),
        ("POST", "/api/v1/bindings", Access("run")),
        ("POST", "/api/v1/bindings/{binding}/accept", Access("run")),
        ("POST", "/api/v1/bindings/{binding}/reject", Access("run")),
        ("POST", "/api/v1/bindings/{binding}/unbind", Access("run")),
        ("GET", "/api/v1/channels", Access("look")),
        ("POST", "/api/v1/channels", Access("type")),
        ("DELETE", "/api/v1/channels/{channel}", Access("type")),
        ("PUT", "/api/v1/channels/{channel}/members/{member}", Access("type")),
        ("DELETE", "/api/v1/channels/{channel}/members/{member}", Access("type")),
        ("GET", "/api/v1/channels/{channel}/messages", Access("look")),
        ("POST", "/api/v1/channels/{channel}/messages", Access("type")),
        # Not of one pod alone: an agent outside pods has an inbox, too.
        ("GET", "/api/v1/pods/{pod}/inbox", Access("look")),
        ("POST", "/api/v1/pods/{pod}/messages", Access("type")),
        ("GET", "/api/v1/waits", Access("look")),
        ("DELETE", "/api/v1/waits/{wait}", Access("run")),
        ("GET", "/api/v1/deadlocks", Access("look")),
        ("GET", "/api/v1/topology", Access("look")),
        ("GET", "/api/v1/pods/{pod}/why", Access("look", pod="pod")),
        ("GET", "/api/v1/handoffs", Access("look")),
        ("POST", "/api/v1/handoffs", Access("type")),
        ("POST", "/api/v1/handoffs/{handoff}/accept", Access("type")),
        ("POST", "/api/v1/handoffs/{handoff}/decline", Access("type")),
        ("GET", "/api/v1/sessions", Access("look")),
        ("GET", "/api/v1/sessions/{session}", Access("look")),
        ("POST", "/api/v1/sessions/{session}/resume", Access("run")),
        ("POST", "/api/v1/sessions/{session}/claim", Access("run")),
        ("DELETE", "/api/v1/sessions/{session}/claim/{new}", Access("run")),
        ("POST", "/api/v1/sessions/{session}/finish", Access("run")),
        ("POST", "/api/v1/sessions/{session}/release", Access("run")),
        ("POST", "/api/v1/sessions/{session}/handoff", Access("run")),
        ("GET", "/api/v1/sessions/{session}/memories", Access("look")),
        ("POST", "/api/v1/sessions/{session}/memories", Access("type")),
        ("GET", "/api/v1/sessions/{session}/summary", Access("look")),
        ("POST", "/api/v1/sessions/{session}/summary", Access("run")),
        ("GET", "/api/v1/memories", Access("look")),
        ("GET", "/api/v1/search", Access("look")),
        ("GET", "/api/v1/worktrees", Access("look")),
        ("GET", "/api/v1/worktrees/{name}/diff", Access("look")),
        ("GET", "/api/v1/worktrees/{name}/patch", Access("look")),
        ("DELETE", "/api/v1/worktrees/{name}", Access("run")),
        ("GET", "/api/v1/me", Access("know self")),
        ("GET", "/api/v1/tokens", Access("admit")),
        ("POST", "/api/v1/tokens", Access("admit")),
        ("DELETE", "/api/v1/tokens/{token}", Access("admit")),
        ("POST", "/api/v1/logins", Access("admit")),
        ("GET", "/mcp", Access("coordinate")),
        ("POST", "/mcp", Access("coordinate")),
        ("DELETE", "/mcp", Access("coordinate")),
        ("POST", "/api/v1/passes", Access("run")),
        ("DELETE", "/api/v1/passes/{pod}", Access("run")),
    ]
)
