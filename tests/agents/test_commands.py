"""Agents on the command line: started by name, recognised by name, listed, and missed with a hint."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrubjay.pods.pod import read_pod
from tests.support.cli import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """A command line whose agents are shell scripts that say what they were given."""
    work = tmp_path / "work"
    (work / "bin").mkdir(parents=True)
    runner = Cli(tmp_path / "data", work)
    runner.env["PATH"] = f"{work}/bin:/usr/bin:/bin"
    yield runner
    for pod in runner.json("ps"):
        if pod["state"] in ("running", "ending"):
            runner("stop", pod["id"], "--grace", "0")


def _install(cli: Cli, name: str, script: str = 'printf "%s\\n" "$@"; env | sort; sleep 60') -> None:
    path = cli.work / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _own_manifest(cli: Cli, name: str, text: str) -> Path:
    path = cli.work / ".config" / "scrubjay" / "agents" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _facts(cli: Cli, name: str) -> tuple[Path, dict[str, Any]]:
    for path in (cli.data / "pods").glob("*/pod.json"):
        facts = json.loads(path.read_bytes())
        if facts["name"] == name:
            return path.parent, facts
    raise AssertionError(f"there is no pod {name}")


def _shown(cli: Cli, name: str, text: str) -> str:
    cli.wait_for(lambda: text in cli("logs", name).stdout.decode())
    return cli("logs", name).stdout.decode()


def test_an_agent_is_started_with_its_options_files_and_a_conversation(cli: Cli) -> None:
    _install(cli, "claude")

    cli("run", "-d", "--agent", "claude", "--prompt", "fix the bug", "--", "--model", "opus")

    folder, facts = _facts(cli, "claude")
    plugin = folder / "agent" / "scrubjay"
    assert facts["argv"] == [
        *("claude", "--plugin-dir", str(plugin), "--session-id", facts["conversation"], "fix the bug"),
        *("--model", "opus"),
    ]
    assert (facts["agent"], facts["arguments"]) == ("claude", ["--model", "opus"])
    hooks = plugin / "hooks" / "hooks.json"
    assert "hook.py claude" in hooks.read_text()
    assert (hooks.stat().st_mode & 0o777, plugin.stat().st_mode & 0o777) == (0o600, 0o700)
    shown = _shown(cli, "claude", f"SCRUBJAY_POD_FOLDER={folder}")
    assert "fix the bug" in shown


def test_a_variable_is_set_for_the_agent_and_not_for_pods_that_it_starts(cli: Cli) -> None:
    _install(cli, "opencode")
    cli("run", "-d", "--agent", "opencode")
    folder, facts = _facts(cli, "opencode")
    assert facts["set"] == ["OPENCODE_CONFIG"]
    _shown(cli, "opencode", f"OPENCODE_CONFIG={folder}/agent/opencode.json")

    inside = {"OPENCODE_CONFIG": f"{folder}/agent/opencode.json", "SCRUBJAY_SET": "OPENCODE_CONFIG"}
    cli.env |= inside
    cli("run", "-d", "--name", "inner", "--", "sh", "-c", "env | sort; echo done; sleep 60")
    cli("run", "-d", "--name", "other", "--agent", "opencode")

    assert "OPENCODE_CONFIG" not in _shown(cli, "inner", "done")
    other, _ = _facts(cli, "other")
    _shown(cli, "other", f"OPENCODE_CONFIG={other}/agent/opencode.json")


def test_a_command_that_is_an_agent_is_known_as_one_and_reports(cli: Cli) -> None:
    _install(cli, "codex")

    cli("run", "-d", "--", "codex", "--search", "do it")
    cli("run", "-d", "--name", "login", "--", "codex", "login")

    _, facts = _facts(cli, "codex")
    assert facts["agent"] == "codex"
    assert facts["argv"][0::3] == ["codex", "--search"]
    assert facts["argv"][2].startswith("hooks={")
    assert "conversation" not in facts
    assert _facts(cli, "login")[1]["argv"] == ["codex", "login"]


def test_a_prompt_that_is_to_be_typed_is_kept_for_who_types_it(cli: Cli) -> None:
    _install(cli, "aider")

    cli("run", "-d", "--agent", "aider", "--prompt", "fix it")

    folder, facts = _facts(cli, "aider")
    assert facts["type_when_ready"] == "fix it"
    assert "fix it" not in facts["argv"]
    pod = read_pod(folder)
    assert pod is not None
    assert [pod.claim_prompt(), pod.claim_prompt()] == ["fix it", None]


def test_a_prompt_to_be_typed_is_not_kept_with_a_secret_in_it(cli: Cli) -> None:
    _install(cli, "aider")
    cli.env["MY_TOKEN"] = "s3cr3t-" + "Zq8" * 9

    said = cli.error("run", "-d", "--agent", "aider", "--prompt", f"use {cli.env['MY_TOKEN']}", code=1)

    assert "the prompt holds a secret" in said
    assert cli.json("ps", "--all") == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--agent", "clade"), 2, "there is no agent 'clade'; known are aider, claude, codex"),
        (("--agent", "../claude"), 2, "there is no agent '../claude'"),
        (("--agent", "codex"), 1, "Codex is not here: there is no 'codex' on the PATH; install it with: npm install"),
        (("--agent", "claude", "--prompt", "  "), 2, "the prompt says nothing"),
        (("--agent", "claude", "--prompt", "x", "--", "mcp", "list"), 2, "claude mcp takes no first prompt"),
        (("--prompt", "x", "--", "cat"), 2, "nobody knows how to give 'cat' a prompt"),
    ],
)
def test_what_cannot_be_started_is_said_in_one_line(cli: Cli, arguments: tuple[str, ...], code: int, said: str) -> None:
    _install(cli, "claude")

    assert said in cli.error("run", "-d", *arguments, code=code)
    assert cli.json("ps", "--all") == []


def test_an_agent_that_is_missing_leaves_no_worktree_behind(cli: Cli) -> None:
    repository = cli.work / "repository"
    identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=repository, check=True)

    cli.error("run", "-d", "--agent", "codex", "--repo", str(repository), code=1)

    assert not list(cli.data.glob("worktrees/*"))


def test_a_persons_own_agent_is_started_and_a_broken_manifest_says_what_is_wrong(cli: Cli) -> None:
    _install(cli, "mine")
    _own_manifest(cli, "mine", "[start]\ncommand = ['mine', '--tui']\nprompt = ['--ask', '{prompt}']\n")
    broken = _own_manifest(cli, "claude", "[start]\ncomand = ['claude']\n")

    cli("run", "-d", "--agent", "mine", "--prompt", "hello")
    said = cli.error("run", "-d", "--agent", "claude", code=2)

    assert _facts(cli, "mine")[1]["argv"] == ["mine", "--tui", "--ask", "hello"]
    assert f"{broken}: start.command names no program" in said


def test_agents_are_listed_with_what_can_be_done_with_them(cli: Cli) -> None:
    _install(cli, "claude")
    own = _own_manifest(cli, "mine", "[start]\ncommand = ['mine']\n")
    _own_manifest(cli, "broken", "nonsense")

    agents = {agent["name"]: agent for agent in cli.json("agents")}
    table = cli("agents").stdout.decode()

    assert agents["claude"]["path"] == f"{cli.work}/bin/claude"
    assert agents["claude"]["features"] == {
        "prompt": "argument",
        "conversation": "chosen",
        "resume": "conversation",
        "hooks": "pod",
        "mcp": "pod",
    }
    assert agents["aider"]["features"]["prompt"] == "typed"
    assert agents["codex"]["features"]["conversation"] == "hook"
    assert agents["gemini"]["features"]["hooks"] is None
    assert (agents["mine"]["own"], agents["mine"]["manifest"]) == (True, str(own))
    assert agents["mine"]["features"] == dict.fromkeys(agents["mine"]["features"])
    assert "is not TOML" in agents["broken"]["error"]
    assert "not found: npm install -g @openai/codex" in table


def test_doctor_finds_a_broken_manifest(cli: Cli) -> None:
    _own_manifest(cli, "mine", "[start]\ncommand = ['mine']\npromt = 1\n")

    found = {finding["check"]: finding for finding in json.loads(cli("doctor", "--json", code=1).stdout)["findings"]}

    assert found["mine"]["verdict"] == "problem"
    assert found["mine"]["remedy"] == "did you mean prompt?"


def test_names_of_agents_are_completed(cli: Cli) -> None:
    asked = {"_SCRUBJAY_COMPLETE": "bash_complete", "COMP_WORDS": "scrubjay run --agent co", "COMP_CWORD": "3"}

    answer = subprocess.run(cli.argv, env=cli.env | asked, capture_output=True, text=True, check=False)

    assert {line.partition(",")[2] for line in answer.stdout.split()} == {"codex", "copilot"}


def test_whoever_types_a_first_prompt_is_named_where_it_does_not_run(cli: Cli) -> None:
    _install(cli, "aider")

    done = cli("run", "-d", "--agent", "aider", "--prompt", "fix the bug")

    assert done.stdout == b"aider\n"
    assert b"typed when aider waits for it, by 'scrubjay up', which does not run here" in done.stderr
