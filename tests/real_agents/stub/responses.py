"""OpenAI's Responses."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from tests.real_agents.stub.dialect import Body, Event, Reply, part, server_sent, spoken
from tests.real_agents.stub.openai import refusal
from tests.real_agents.stub.tools import Schemas

_USAGE: Body = {
    "input_tokens": 1200,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 1250,
}


class Responses:
    """``POST /v1/responses``."""

    def tools(self, body: Body) -> Schemas:
        return dict(_tools(body.get("tools") or []))

    def schema(self, body: Body) -> dict[str, Any] | None:
        wanted = part(part(body, "text"), "format")
        return wanted.get("schema") if wanted.get("type") == "json_schema" else None

    def answer(self, body: Body, reply: Reply) -> Iterator[Event] | Body:
        response: Body = {
            "id": f"resp_{uuid.uuid4().hex}",
            "object": "response",
            "created_at": int(time.time()),
            "model": body.get("model", "stub"),
            "status": "in_progress",
            "output": [],
        }
        items = list(_items(reply, _namespaces(body.get("tools") or [])))
        finished = response | {"status": "completed", "output": items, "usage": _USAGE}
        return _stream(response, items, finished, reply) if body.get("stream") else finished

    def failure(self, status: int, text: str) -> Body:
        return refusal(status, text)


def _tools(tools: list[Body]) -> Iterator[tuple[str, dict[str, Any]]]:
    for tool in tools:
        if tool["type"] == "namespace":
            yield from _tools(tool["tools"])
        else:
            yield tool.get("name") or tool["type"], tool.get("parameters") or {}


def _namespaces(tools: list[Body]) -> dict[str, str]:
    """Which namespace a tool is in, for those that are in one."""
    spaces = [tool for tool in tools if tool["type"] == "namespace"]
    return {name: space["name"] for space in spaces for name, _ in _tools(space["tools"])}


def _items(reply: Reply, namespaces: dict[str, str]) -> Iterator[Body]:
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        yield {"type": "reasoning", "id": f"rs_{uuid.uuid4().hex[:24]}", "summary": summary, "encrypted_content": None}
    if reply.text:
        content: list[Body] = [{"type": "output_text", "text": reply.text, "annotations": []}]
        identity = f"msg_{uuid.uuid4().hex[:24]}"
        yield {"type": "message", "id": identity, "role": "assistant", "status": "completed", "content": content}
    if reply.use is not None:
        call = {
            "type": "function_call",
            "id": f"fc_{uuid.uuid4().hex[:24]}",
            "call_id": f"call_{uuid.uuid4().hex[:24]}",
            "name": reply.use.name,
            "arguments": json.dumps(reply.use.arguments),
            "status": "completed",
        }
        namespace = namespaces.get(reply.use.name)
        yield call if namespace is None else call | {"namespace": namespace}


# What an item has before its content came.
_EMPTY: dict[str, Body] = {
    "reasoning": {"summary": []},
    "message": {"status": "in_progress", "content": []},
    "function_call": {"status": "in_progress", "arguments": ""},
}


def _stream(response: Body, items: list[Body], finished: Body, reply: Reply) -> Iterator[Event]:
    yield _event("response.created", {"response": response})
    for index, item in enumerate(items):
        where = {"item_id": item["id"], "output_index": index}
        yield _event(
            "response.output_item.added", {"output_index": index, "item": {**item, **_EMPTY[str(item["type"])]}}
        )
        match item["type"]:
            case "reasoning":
                summary = where | {"summary_index": 0}
                yield _event("response.reasoning_summary_part.added", summary | {"part": item["summary"][0]})
                yield _event("response.reasoning_summary_text.delta", summary | {"delta": reply.thinking})
                yield _event("response.reasoning_summary_text.done", summary | {"text": reply.thinking})
            case "message":
                part = where | {"content_index": 0}
                yield _event("response.content_part.added", part | {"part": {**item["content"][0], "text": ""}})
                for word, pause_s in spoken(reply):
                    yield _event("response.output_text.delta", part | {"delta": word}, pause_s)
                yield _event("response.output_text.done", part | {"text": reply.text})
                yield _event("response.content_part.done", part | {"part": item["content"][0]})
            case _:
                yield _event("response.function_call_arguments.delta", where | {"delta": item["arguments"]})
                yield _event("response.function_call_arguments.done", where | {"arguments": item["arguments"]})
        yield _event("response.output_item.done", {"output_index": index, "item": item})
    yield _event("response.completed", {"response": finished})


def _event(kind: str, data: Body, pause_s: float = 0.0) -> Event:
    return server_sent({"type": kind, **data}, event=kind, pause_s=pause_s)
