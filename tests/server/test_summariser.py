"""Whoever makes summaries: real programs and a real endpoint, which do what they like."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Generator
from pathlib import Path
from unittest import mock

import pytest

from scrubjay.errors import BadSetting
from scrubjay.fleet.summaries import TEXT_MAX
from scrubjay.fleet.summary_prompt import INSTRUCTION, Prompt
from scrubjay.server.sessions import summary_command, summary_endpoint
from scrubjay.server.sessions.summariser import Summariser, SummariserFailed, make_summariser
from scrubjay.settings import Settings
from tests.server.fake_model import Model, open_model
from tests.support.conditions import until
from tests.support.guarded_server import free_socket
from tests.support.processes import is_alive

pytestmark = pytest.mark.anyio

_KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
_PROMPT = Prompt("<turns>\nTurn 1\nPrompt: fix it, caf\u00e9 \ud83d\n</turns>")


@pytest.fixture
def model() -> Generator[Model]:
    with open_model() as opened:
        yield opened


def _command(tmp_path: Path, script: str, *arguments: str) -> Summariser:
    path = tmp_path / "sum.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    settings = Settings(data=tmp_path, summary_command=(str(path), *arguments))
    made = make_summariser(settings, {**os.environ, "SCRUBJAY_NOTIFY": "secret", "MODEL_KEY": "ours"})
    assert made is not None
    return made


def _endpoint(tmp_path: Path, url: str, *, key: str | None = None) -> Summariser:
    settings = Settings(
        data=tmp_path, summary_url=url, summary_model="llama3", summary_key_variable="MODEL_KEY" if key else None
    )
    made = make_summariser(settings, {"MODEL_KEY": key} if key else {})
    assert made is not None
    return made


async def _refusal(summariser: Summariser, prompt: Prompt = _PROMPT) -> str:
    with pytest.raises(SummariserFailed) as failed:
        await summariser.make(prompt)
    return str(failed.value)


def test_without_a_setting_there_is_no_summariser(tmp_path: Path) -> None:
    assert make_summariser(Settings(data=tmp_path), {}) is None


@pytest.mark.parametrize("key", [None, "", "  ", "two words", "caf\u00e9"])
def test_a_key_that_is_not_there_is_a_bad_setting_and_never_shown(tmp_path: Path, key: str | None) -> None:
    settings = Settings(data=tmp_path, summary_url="http://x/v1", summary_model="m", summary_key_variable="MODEL_KEY")

    with pytest.raises(BadSetting) as refused:
        make_summariser(settings, {} if key is None else {"MODEL_KEY": key})
    assert "MODEL_KEY" in str(refused.value)
    assert refused.value.hint
    assert not (key or "").strip() or (key or "") not in str(refused.value)


# A command.


async def test_a_command_reads_the_turns_and_writes_a_summary(tmp_path: Path) -> None:
    kept = tmp_path / "asked"
    summariser = _command(
        tmp_path, f'cat > {kept}; echo "  summed up: $1 in $PWD, key $MODEL_KEY,$SCRUBJAY_NOTIFY"', "x y"
    )

    assert await summariser.make(_PROMPT) == "summed up: x y in /, key ours,"
    assert kept.read_text() == f"{INSTRUCTION}\n\n<turns>\nTurn 1\nPrompt: fix it, café ?\n</turns>\n"
    assert (summariser.name, summariser.model) == ("summariser:sum.sh", None)


async def test_a_command_that_fails_is_quoted_with_its_last_line_and_without_keys(tmp_path: Path) -> None:
    script = f'echo first >&2; echo "bad \033[31mkey {_KEY}" >&2; echo >&2; exit 3'

    why = await _refusal(_command(tmp_path, script))

    assert why.startswith("sum.sh ended with status 3: bad \\u{1b}[31mkey sk-proj-")
    assert _KEY not in why
    assert await _refusal(_command(tmp_path, "kill -9 $$")) == "sum.sh was killed by signal 9"


async def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, summary_command=(str(tmp_path / "nothing"),))
    summariser = make_summariser(settings, {})
    assert summariser is not None

    assert await _refusal(summariser) == "nothing cannot be started: No such file or directory"


async def test_a_command_need_not_read_what_it_is_given(tmp_path: Path) -> None:
    assert await _command(tmp_path, "exec <&-; echo short").make(Prompt("x" * 1_000_000)) == "short"


async def test_a_command_that_says_nothing_has_failed(tmp_path: Path) -> None:
    assert await _refusal(_command(tmp_path, "cat > /dev/null")) == "it has answered nothing"
    assert await _refusal(_command(tmp_path, "echo '<think>hm</think>'")) == "it has answered nothing"


async def test_what_a_model_thinks_is_not_part_of_its_summary(tmp_path: Path) -> None:
    assert await _command(tmp_path, "echo '<think>hm'; echo 'so</think> Done.'").make(_PROMPT) == "Done."


async def test_a_summary_that_is_too_long_is_cut_and_says_so(tmp_path: Path) -> None:
    text = await _command(tmp_path, "head -c 100000 /dev/zero | tr '\\0' x").make(_PROMPT)

    assert len(text) == TEXT_MAX
    assert text.endswith("[… the rest was left out: the summary was too long]")


async def test_a_command_that_never_stops_talking_is_ended(tmp_path: Path) -> None:
    assert await _refusal(_command(tmp_path, "yes")) == "sum.sh has written more than 1 MiB"


async def test_a_command_that_takes_too_long_is_ended_with_all_it_has_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! $$ > {pids}; wait"
    with mock.patch.object(summary_command, "MAKE_WITHIN_S", 1.0):
        assert await _refusal(_command(tmp_path, script)) == "sum.sh took longer than 1 s"

    child, parent = map(int, pids.read_text().split())
    await until(lambda: not is_alive(child) and not is_alive(parent), "both are gone")


async def test_what_a_command_leaves_behind_is_ended_and_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    assert await _command(tmp_path, f"sleep 1000 & echo $! > {pid}; echo done").make(_PROMPT) == "done"
    await until(lambda: not is_alive(int(pid.read_text())), "it is gone")


async def test_what_has_left_a_commands_group_is_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > {pid}; exec sleep 1000' & until [ -s {pid} ]; do sleep 0.01; done; echo done"

    assert await _command(tmp_path, script).make(_PROMPT) == "done"
    os.kill(int(pid.read_text()), signal.SIGKILL)


async def test_a_command_whose_summary_nobody_wants_any_more_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    making = asyncio.create_task(_command(tmp_path, f"echo $$ > {pid}; exec sleep 1000").make(_PROMPT))
    await until(lambda: pid.exists() and pid.read_text().strip(), "it runs")

    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making

    assert not is_alive(int(pid.read_text()))


def _children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


async def test_a_command_that_is_ended_as_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    summariser, before = _command(tmp_path, "exec sleep 1000"), _children()

    for turns in range(12):  # of the event loop, until it is not wanted any more
        making = asyncio.create_task(summariser.make(_PROMPT))
        for _ in range(turns):
            await asyncio.sleep(0)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making

        assert [pid for pid in _children() - before if is_alive(pid)] == []


# An endpoint.


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_model_is_asked_for_a_completion(tmp_path: Path, model: Model, *, chunked: bool) -> None:
    model.chunked = chunked
    model.text = " Summed up, caf\u00e9 \ud83d. "
    summariser = _endpoint(tmp_path, model.url, key=_KEY)

    assert await summariser.make(_PROMPT) == "Summed up, café ?."
    (asked,) = model.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {_KEY}"
    assert asked.headers["host"] == f"127.0.0.1:{model.port}"
    assert asked.body == {
        "model": "llama3",
        "messages": [
            {"role": "system", "content": INSTRUCTION},
            {"role": "user", "content": _PROMPT.turns},
        ],
        "stream": False,
    }
    assert (summariser.name, summariser.model) == ("summariser:127.0.0.1", "llama3")


async def test_without_a_key_none_is_sent(tmp_path: Path, model: Model) -> None:
    await _endpoint(tmp_path, model.url).make(_PROMPT)

    assert "authorization" not in model.asked[0].headers


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (429, b"", "answered 429"),
        (503, b"<html>busy</html>", "answered 503"),
        (401, json.dumps({"error": {"message": f"no: {_KEY}\nmore"}}).encode(), "answered 401: no: sk-proj-"),
        (404, b'{"error": "model not found"}', "answered 404: model not found"),
        (301, b"", "answered 301"),
        (200, b"{}", "has answered with something that is no completion"),
        (200, b"nonsense", "has answered with something that is no completion"),
        (200, b'{"choices": [{"message": {"content": null}}]}', "has answered with something that is no completion"),
        (200, b'{"choices": []}', "has answered with something that is no completion"),
        (200, b"x" * (2 << 20), "has answered more than 1 MiB"),
    ],
)
async def test_what_is_no_summary_is_told_in_one_line(
    tmp_path: Path, model: Model, status: int, body: bytes, why: str
) -> None:
    model.errors = [(status, body)]

    told = await _refusal(_endpoint(tmp_path, model.url, key=_KEY))

    assert why in told
    assert f"127.0.0.1:{model.port}" in told
    assert _KEY not in told
    assert "\n" not in told


async def test_an_endpoint_that_is_not_there_or_speaks_otherwise_is_named(tmp_path: Path, model: Model) -> None:
    with free_socket() as taken:
        port = taken.getsockname()[1]
    assert f"127.0.0.1:{port} cannot be asked: " in await _refusal(_endpoint(tmp_path, f"http://127.0.0.1:{port}/v1"))

    secure = _endpoint(tmp_path, model.url.replace("http:", "https:"))
    assert f"127.0.0.1:{model.port} cannot be asked: " in await _refusal(secure)


async def test_an_endpoint_that_hangs_up_or_answers_something_else_is_named(tmp_path: Path) -> None:
    answers = [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", b"SSH-2.0-OpenSSH\r\n\r\n"]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"</turns>")
        writer.write(answers.pop(0))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        summariser = _endpoint(tmp_path, f"http://127.0.0.1:{port}/v1")

        assert "answered nothing" in await _refusal(summariser)
        assert "no completion" in await _refusal(summariser)
        assert "cannot be asked" in await _refusal(summariser)


async def test_an_endpoint_that_takes_too_long_is_left(tmp_path: Path, model: Model) -> None:
    model.hold.clear()

    with mock.patch.object(summary_endpoint, "MAKE_WITHIN_S", 0.5):
        assert "took longer than" in await _refusal(_endpoint(tmp_path, model.url))
