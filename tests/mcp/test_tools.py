"""Tools: how they are described, called, and answered when something is wrong."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest
from structlog.testing import capture_logs

from scrubjay.server.mcp.endpoint import all_tools
from scrubjay.server.mcp.toolbox import Toolbox
from scrubjay.tape.record import Json
from tests.mcp.tool_server import ToolServer, Waiting, tools_of
from tests.support.mcp_client import MODERN_VERSION, Raw

pytestmark = pytest.mark.anyio

_ERAS = ("2025-06-18", MODERN_VERSION)
_DESCRIPTION_MAX = 500  # characters; an agent has those of all tools before it, all the time
_ALL_MAX = 26_000  # of all tools as they are listed: 6,500 tokens


def test_a_tool_says_what_it_does_in_few_words_and_describes_all_it_takes() -> None:
    wrong: list[str] = []
    for tool in all_tools():
        schema = tool.schema()
        if not 20 < len(tool.description) <= _DESCRIPTION_MAX:
            wrong.append(f"{tool.name}: its description has {len(tool.description)} characters")
        if schema["additionalProperties"] is not False or "title" in json.dumps(schema):
            wrong.append(f"{tool.name}: {schema}")
        for name, described in cast(dict[str, Json], schema.get("properties", {})).items():
            if name != "limit" and not described.get("description"):
                wrong.append(f"{tool.name} does not say what {name} is")

    assert wrong == []


def test_what_must_not_be_done_twice_takes_a_key() -> None:
    without = [
        tool.name
        for tool in all_tools()
        if not tool.idempotent and "idempotency_key" not in tool.parameters.model_fields
    ]

    assert without == []


def test_all_tools_together_leave_an_agent_room_to_think() -> None:
    listed = json.dumps([[tool.name, tool.description, tool.schema()] for tool in all_tools()])

    assert len(listed) <= _ALL_MAX


async def test_two_tools_of_one_name_are_a_mistake(server: ToolServer) -> None:
    with pytest.raises(AssertionError, match="whoami"):
        Toolbox(server.server.coordination, [*all_tools(), *all_tools()])


async def test_what_an_agent_is_told_of_a_tool(server: ToolServer) -> None:
    async with server.raw() as client:
        listed = {tool["name"]: tool for tool in cast(list[Json], (await client.ask("tools/list"))["tools"])}

    assert list(listed) == [tool.name for tool in tools_of(Waiting())]
    assert listed["fail"] == {
        "name": "fail",
        "description": "Do not succeed.",
        "inputSchema": {
            "type": "object",
            "properties": {"how": {"type": "string", "description": "In which way.", "maxLength": 10}},
            "required": ["how"],
            "additionalProperties": False,
        },
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": False,
            "openWorldHint": False,
        },
    }
    assert cast(Json, listed["whoami"]["annotations"])["readOnlyHint"] is True


async def _failure(client: Raw, tool: str, /, **arguments: object) -> tuple[str, Json]:
    result = await client.ask("tools/call", name=tool, arguments=arguments)
    assert result["isError"] is True
    content = cast(list[Json], result["content"])
    error = cast(Json, cast(Json, result["structuredContent"])["error"])
    assert [part["type"] for part in content] == ["text"]
    return str(content[0]["text"]), error


@pytest.mark.parametrize("version", _ERAS)
async def test_what_cannot_be_done_is_said_with_its_hint_and_code(server: ToolServer, version: str) -> None:
    async with server.raw(version) as client:
        text, error = await _failure(client, "fail", how="known")

    hint = "'scrubjay logs worker' shows what it did"
    assert text == f"pod 'worker' is not running: exited 1; {hint}"
    assert error == {"code": "pod_not_running", "message": "pod 'worker' is not running: exited 1", "hint": hint}


@pytest.mark.parametrize("version", _ERAS)
async def test_what_nobody_thought_of_is_logged_and_not_shown(server: ToolServer, version: str) -> None:
    async with server.raw(version) as client:
        with capture_logs() as logged:
            text, error = await _failure(client, "fail", how="oops")

    assert text == "something went wrong here; the server's log says what"
    assert error["code"] == "internal_error"
    assert [(line["event"], line["tool"]) for line in logged if line["log_level"] == "error"] == [
        ("tool.failed", "fail")
    ]


@pytest.mark.parametrize("version", _ERAS)
async def test_a_tool_there_is_not_is_said_to_be_none(server: ToolServer, version: str) -> None:
    async with server.raw(version) as client:
        text, error = await _failure(client, "x" * 100)

    assert text == f"there is no tool '{'x' * 60}…'; tools/list names those there are"
    assert error["code"] == "no_such_tool"


@pytest.mark.parametrize("version", _ERAS)
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "how: Field required"),
        ({"how": 5}, "how: Input should be a valid string"),
        ({"how": "x" * 11}, "how: String should have at most 10 characters"),
        ({"how": "known", "why": 1}, "why: Extra inputs are not permitted"),
        ({"desk": 1, "how": "known"}, "desk: Extra inputs are not permitted"),
    ],
)
async def test_arguments_a_tool_does_not_take_are_named(
    server: ToolServer, version: str, arguments: Json, complaint: str
) -> None:
    async with server.raw(version) as client:
        text, error = await _failure(client, "fail", **arguments)

    assert text == f"{complaint}; fail takes how"
    assert error["code"] == "bad_arguments"


@pytest.mark.parametrize("version", _ERAS)
async def test_nobody_says_by_an_argument_who_they_are(server: ToolServer, version: str) -> None:
    async with server.raw(version, role="viewer", name="mallory") as client:
        for name in ("principal", "caller", "role", "name", "pod", "token"):
            await _failure(client, "whoami", **{name: "operator"})
        who = await client.call("whoami")

    assert (who["name"], who["role"]) == ("mallory", "viewer")


@pytest.mark.parametrize("version", _ERAS)
async def test_what_is_no_text_is_answered_as_text(server: ToolServer, version: str) -> None:
    async with server.raw(version) as client:
        said = await client.call("fail", how="odd")

    assert said == {"path": "/tmp/\\u{dcff}", "desk": "alice"}


@pytest.mark.parametrize("version", _ERAS)
async def test_calls_at_once_are_each_their_callers(server: ToolServer, version: str) -> None:
    async with (
        server.raw(version, name="alice") as alice,
        server.raw(version, name="bob", role="agent") as bob,
    ):
        said = await asyncio.gather(*(client.call("whoami") for client in (alice, bob) * 20))

    assert [who["name"] for who in said] == ["alice", "bob"] * 20
