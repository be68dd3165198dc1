"""docs/agents.md says of every agent what its manifest does."""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

from scrubjay.agents.launch import Launch, Place, launch_agent, resume_agent
from scrubjay.agents.library import Library
from scrubjay.agents.manifest import CODEX_HOOKS, PLACEHOLDERS, parse_manifest
from scrubjay.status.rules import parse_rules
from tests.support.paths import DOCS

_PAGE = (DOCS / "agents.md").read_text()
_PLACE = Place(folder="FOLDER", hook="HOOK", environ={})
_NAMES = Library(None).names()


def _section(name: str) -> str:
    found = re.search(rf"^### {name}\n(.*?)(?=^##)", _PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no section on {name}"
    return found[1]


def _as_shown(launch: Launch) -> str:
    words = [f"{name}={value}" for name, value in launch.environment.items()]
    for word in launch.argv:
        words.append("hooks=…" if word.startswith("hooks={") else word.removesuffix(" notification"))
    line = " ".join(word if "…" in word else shlex.quote(word) for word in words)
    return f"`{line}`" + (", then the prompt is typed" if launch.type_when_ready is not None else "")


def test_there_is_a_section_on_every_agent_and_on_no_other() -> None:
    assert sorted(re.findall(r"^### (\w+)$", _PAGE, re.MULTILINE)) == _NAMES


@pytest.mark.parametrize("name", _NAMES)
def test_commands_are_shown_as_they_are_run(name: str) -> None:
    manifest = Library(None).find(name)
    started = launch_agent(manifest, _PLACE, arguments=(), prompt="PROMPT", new_conversation="ID")
    resumed = resume_agent(manifest, _PLACE, arguments=(), prompt="PROMPT", conversation="ID")

    assert f"| start | {_as_shown(started)} |" in _section(name)
    assert f"| resume | {_as_shown(resumed)} |" in _section(name)


@pytest.mark.parametrize("name", _NAMES)
def test_every_hook_that_says_something_is_on_the_page(name: str) -> None:
    manifest = Library(None).find(name)

    for event in parse_rules(manifest.status).hooks:
        assert f"`{event}`" in _section(name)
    assert ("| tools | none" in _section(name)) == (manifest.mcp is None)


@pytest.mark.parametrize("name", _NAMES)
def test_the_signals_that_prove_a_state_are_those_that_the_manifest_reads(name: str) -> None:
    rules = parse_rules(Library(None).find(name).status)
    read = {"title": rules.title, "progress": rules.progress, "paste": rules.paste, "screen": rules.screen}
    row = re.search(rf"^\| {name} \|(.*)$", _PAGE, re.MULTILINE)

    assert row is not None
    named = set(re.findall(r"`(\w+)`", row[1])) - {"program"}
    assert named == {signal for signal, found in (read | {"hook": rules.hooks}).items() if found}


def test_the_example_is_a_manifest() -> None:
    example = re.search(r"```toml\n(.*?)```", _PAGE.partition("## How to add an agent")[2], re.DOTALL)
    assert example is not None
    manifest = parse_manifest("mine", tomllib.loads(example[1]), "example")

    launch = launch_agent(manifest, _PLACE, arguments=("-x",), prompt="PROMPT", new_conversation="ID")
    assert shlex.join(launch.argv) == (
        "my-agent --tui --no-update --hooks FOLDER/hooks.json --session ID --ask PROMPT -x"
    )


def test_the_example_of_rules_uses_every_key() -> None:
    page = (DOCS / "status.md").read_text()
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert example is not None

    rules = parse_rules(tomllib.loads(example[1])["status"])

    assert all([rules.title, rules.progress, rules.paste, rules.screen, rules.hooks, rules.leave])
    for key in ("foot", "body", "none", "after", "cursor", "moves", "trust"):
        assert f"| `{key}` |" in page
    for signal in rules.order:
        assert f"| `{signal}` |" in page


def test_every_placeholder_is_explained() -> None:
    for name in (*PLACEHOLDERS, CODEX_HOOKS):
        assert f"`{{{name}" in _PAGE
