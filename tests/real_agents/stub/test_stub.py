"""The stub model says what its script has, in every dialect."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from typing import Any

import httpx
import pytest

from tests.real_agents.stub.script import Answer, Failure, Shell
from tests.real_agents.stub.server import Stub

_SHELL = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
_ASKS: dict[str, dict[str, Any]] = {
    "/v1/messages": {
        "stream": True,
        "messages": [{"role": "user", "content": "hello there"}],
        "tools": [{"name": "Bash", "input_schema": _SHELL}],
    },
    "/v1/responses": {
        "stream": True,
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hello there"}]}],
        "tools": [{"type": "function", "name": "shell", "parameters": _SHELL}],
    },
    "/v1/chat/completions": {
        "stream": True,
        "messages": [{"role": "user", "content": "hello there"}],
        "tools": [{"type": "function", "function": {"name": "bash", "parameters": _SHELL}}],
    },
    "/v1beta/models/m:streamGenerateContent": {
        "contents": [{"role": "user", "parts": [{"text": "hello there"}]}],
        "tools": [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema": _SHELL}]}],
    },
}


@pytest.fixture
def stub() -> Generator[Stub]:
    with Stub() as stub:
        yield stub


@pytest.mark.parametrize("path", _ASKS)
def test_a_turn_streams_text_and_a_call_of_the_agents_own_shell(stub: Stub, path: str) -> None:
    stub.plan(Answer("one two three", thinking="hm", call=Shell("make test")))

    said = httpx.post(stub.url + path, json=_ASKS[path]).text

    assert all(word in said for word in ("one ", "two ", "three", "hm", "make test"))
    assert [turn.heard("hello there") for turn in stub.turns] == [True]
    assert stub.turns[0].answered


@pytest.mark.parametrize("path", _ASKS)
def test_a_request_without_tools_takes_no_step(stub: Stub, path: str) -> None:
    stub.plan(Answer("the answer"))

    aside = httpx.post(stub.url + path, json={**_ASKS[path], "tools": []}).text
    turn = httpx.post(stub.url + path, json=_ASKS[path]).text

    assert "answer" not in aside
    assert "answer" in turn
    assert [request.is_turn for request in stub.requests] == [False, True]


@pytest.mark.parametrize("path", _ASKS)
def test_a_failure_is_an_http_error_with_its_text(stub: Stub, path: str) -> None:
    stub.plan(Failure(429, "come back later", {"retry-after": "4"}))

    refused = httpx.post(stub.url + path, json=_ASKS[path])

    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "4"
    assert refused.json()["error"]["message"] == "come back later"


@pytest.mark.parametrize("path", _ASKS)
def test_a_cut_stream_breaks_in_the_middle(stub: Stub, path: str) -> None:
    stub.plan(Answer("one two three four five six", cut=True))

    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(stub.url + path, json=_ASKS[path])


@pytest.mark.parametrize("path", _ASKS)
def test_a_held_answer_goes_on_when_the_test_says_so(stub: Stub, path: str) -> None:
    held = threading.Event()
    stub.plan(Answer("one two three four five six", held=held))
    said = ""

    with httpx.stream("POST", stub.url + path, json=_ASKS[path]) as answer:
        for line in answer.iter_lines():
            said += line
            if "two" in line and not held.is_set():
                assert not stub.turns[0].answered
                held.set()

    assert "six" in said
    assert stub.turns[0].answered


def test_a_stub_ends_while_it_is_silent() -> None:
    with Stub() as stub:
        stub.plan(Answer("late", silent_s=600))
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(stub.url + "/v1/messages", json=_ASKS["/v1/messages"], timeout=0.3)


def test_what_must_be_json_is_json(stub: Stub) -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "sure": {"type": "boolean"}}}
    wanted = {"format": {"type": "json_schema", "schema": schema}}

    said = httpx.post(stub.url + "/v1/messages", json={"messages": [], "output_config": wanted}).json()

    assert json.loads(said["content"][0]["text"]) == {"title": "A small matter", "sure": False}
