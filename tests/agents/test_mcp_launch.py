"""Agents are started with the server's tools: registered for one pod, and not asked about where that is right."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest

from scrubjay.agents.endpoint import McpEndpoint
from scrubjay.agents.launch import Place, launch_agent, launch_command
from scrubjay.agents.library import Library
from scrubjay.errors import BadId, HomeUnusable
from scrubjay.ids import new_pod_id
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod
from scrubjay.runner.start import start
from scrubjay.runner.worktrees import Worktrees
from scrubjay.server.mcp.endpoint import all_tools
from scrubjay.settings import Settings
from scrubjay.wire.messages import Start
from tests.support.conditions import eventually
from tests.support.paths import DOCS

_URL = "http://127.0.0.1:8477/mcp"
_TOKEN = "sjt_abcdefghijkl_" + "m" * 52
_ASKED = {"send_input", "answer_binding", "resume_pod"}
_PAGE = (DOCS / "agents.md").read_text()


def _argv(name: str) -> tuple[str, ...]:
    place = Place(folder="/f", hook="h", environ={}, mcp=McpEndpoint(_URL, _TOKEN))
    return launch_agent(Library(None).find(name), place, arguments=(), prompt=None, new_conversation="ID").argv


def test_claude_asks_for_the_tools_that_open_a_terminal_and_for_no_other() -> None:
    [allowed] = [word for word in _argv("claude") if word.startswith("--allowedTools=")]

    names = allowed.removeprefix("--allowedTools=").split(",")

    assert set(names) == {f"mcp__scrubjay__{tool.name}" for tool in all_tools() if tool.name not in _ASKED}


def test_codex_asks_for_the_tools_that_open_a_terminal_and_for_no_other() -> None:
    settings = tomllib.loads("\n".join(word for word in _argv("codex") if word.startswith("mcp_servers.")))

    assert settings["mcp_servers"]["scrubjay"] == {
        "url": _URL,
        "bearer_token_env_var": "JAY_MCP_TOKEN",
        "default_tools_approval_mode": "approve",
        "tools": {name: {"approval_mode": "prompt"} for name in _ASKED},
    }


def test_gemini_is_shown_a_policy_that_asks_for_the_tools_that_open_a_terminal_and_for_no_other() -> None:
    [policy] = re.findall(r"```toml\n(\[\[rule\]\].*?)```", _PAGE, re.DOTALL)
    allow, ask = tomllib.loads(policy)["rule"]

    assert (allow["decision"], allow["toolName"]) == ("allow", "*")
    assert (ask["decision"], set(ask["toolName"])) == ("ask_user", _ASKED)
    assert ask["priority"] > allow["priority"]
    assert {tool.name for tool in all_tools()} >= _ASKED


def test_a_command_that_is_an_agent_gets_the_tools_too() -> None:
    place = Place(folder="/f", hook="h", environ={}, mcp=McpEndpoint(_URL, _TOKEN))

    launch = launch_command(Library(None).find("claude"), place, ("claude", "--verbose"))

    assert "--mcp-config=/f/mcp.json" in launch.argv
    assert json.loads(launch.files["mcp.json"])["mcpServers"]["scrubjay"]["url"] == _URL


class _Box:
    """A machine with an agent that writes down what it finds, where pods are started as a runner starts them."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._home = folder, Home(folder / "data")
        self._environ = {"PATH": f"{folder}:{os.environ['PATH']}", "JAY_MCP_TOKEN": "a person's own"}
        (folder / "claude").write_text("#!/bin/sh\nenv > found.new; mv found.new found; exec sleep 100\n")
        (folder / "claude").chmod(0o755)

    def start(
        self, pod_id: str | None = None, *, mcp: bool = True, mcp_url: str | None = _URL
    ) -> tuple[Pod, dict[str, str]]:
        """A pod, and the environment of its agent."""
        pod = start(
            Start(agent="claude", cwd=str(self._folder), pod=pod_id, mcp_token=_TOKEN),
            home=self._home,
            worktrees=Worktrees(self._home.path, environ=self._environ),
            settings=Settings(data=self._home.path, mcp=mcp),
            environ=self._environ,
            mcp_url=mcp_url,
        )
        found = self._folder / "found"
        eventually(found.exists, "it has written down what it finds")
        lines = [line.partition("=") for line in found.read_text().splitlines()]
        return pod, {name: value for name, _, value in lines}

    def end(self) -> None:
        for pod in self._home.pods():
            with pod.connect() as keeper:
                keeper.send({"do": "stop", "author": "test", "grace_ms": 0})
            eventually(lambda: not pod.alive, "it ends")  # noqa: B023


@pytest.fixture
def box(tmp_path: Path) -> Generator[_Box]:
    box = _Box(tmp_path)
    yield box
    box.end()


def test_a_runner_starts_a_pod_with_the_id_and_the_token_that_it_is_given(box: _Box) -> None:
    wanted = new_pod_id()

    pod, environ = box.start(wanted)

    assert pod.id == wanted
    assert (environ["JAY_MCP_URL"], environ["JAY_MCP_TOKEN"]) == (_URL, _TOKEN)
    assert json.loads((pod.folder / "agent" / "mcp.json").read_text())["mcpServers"]["scrubjay"]["url"] == _URL
    assert f"--mcp-config={pod.folder}/agent/mcp.json" in pod.argv
    assert not any(_TOKEN.encode() in path.read_bytes() for path in pod.folder.rglob("*") if path.is_file())


def test_without_an_address_a_persons_own_variables_are_theirs(box: _Box) -> None:
    pod, environ = box.start(mcp_url=None)

    assert environ["JAY_MCP_TOKEN"] == "a person's own"
    assert "JAY_MCP_URL" not in environ
    assert "mcp" not in " ".join(pod.argv).replace(str(pod.folder), "FOLDER")


def test_a_machine_can_be_set_to_give_no_tools_to_anybody(box: _Box) -> None:
    pod, environ = box.start(mcp=False)

    assert environ["JAY_MCP_TOKEN"] == "a person's own"
    assert "mcp" not in " ".join(pod.argv).replace(str(pod.folder), "FOLDER")


@pytest.mark.parametrize("raw", ["../../etc", "A" * 26, "", "a" * 27])
def test_a_runner_takes_no_id_that_is_none(box: _Box, raw: str) -> None:
    with pytest.raises(BadId):
        box.start(raw)


def test_a_runner_takes_no_id_that_another_pod_has(box: _Box) -> None:
    pod, _ = box.start()
    before = sorted(path.name for path in pod.folder.iterdir())

    with pytest.raises(HomeUnusable):
        box.start(pod.id)

    assert pod.alive
    assert sorted(path.name for path in pod.folder.iterdir()) == before
