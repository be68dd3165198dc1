"""Manifests say what can be done with an agent; one that cannot be understood says which key and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scrubjay.agents.library import Library, read_manifest
from scrubjay.agents.manifest import Manifest, parse_manifest
from scrubjay.errors import BadInput, BadManifest
from scrubjay.status.rules import parse_rules

AGENTS = ("aider", "claude", "codex", "copilot", "gemini", "opencode", "qwen")


def _manifest(**tables: object) -> Manifest:
    return parse_manifest("mine", {"start": {"command": ["mine"]}} | tables, "mine.toml")


def _refusal(text: str, folder: Path) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    with pytest.raises(BadManifest) as refused:
        read_manifest(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert refused.value.hint
    assert "\n" not in f"{refused.value}{refused.value.hint}"
    return f"{str(refused.value).removeprefix(f'{path}: ')}; {refused.value.hint}"


def test_the_agents_that_come_with_scrubjay_are_known() -> None:
    assert tuple(Library(None).names()) == AGENTS


@pytest.mark.parametrize("name", AGENTS)
def test_a_manifest_says_how_its_agent_is_started_prompted_and_resumed(name: str) -> None:
    manifest = Library(None).find(name)

    assert manifest.name == name
    assert manifest.install
    assert manifest.start.prompt is not None or manifest.start.prompt_when == "ready"
    assert manifest.resume is not None
    assert manifest.conversation.known in ("chosen", "hook")
    if manifest.conversation.known == "hook":
        assert manifest.hooks is not None  # or nobody would ever know it


@pytest.mark.parametrize("name", AGENTS)
def test_the_states_that_an_agents_hooks_stand_for_can_be_read(name: str) -> None:
    manifest = Library(None).find(name)

    assert parse_rules(manifest.status).hooks


@pytest.mark.parametrize("name", [name for name in AGENTS if name not in ("aider", "gemini")])
def test_every_event_that_stands_for_a_state_is_one_that_is_registered(name: str) -> None:
    manifest = Library(None).find(name)
    assert manifest.hooks is not None
    registered = json.dumps([file.json or file.text for file in manifest.files]) + " ".join(manifest.hooks.options)

    for event in parse_rules(manifest.status).hooks:
        assert event.partition(":")[0] in registered


def test_the_least_a_manifest_can_say_is_a_command() -> None:
    manifest = _manifest()

    assert manifest.title == "mine"
    assert manifest.program == "mine"
    assert manifest.start.prompt is None
    assert manifest.resume is None
    assert manifest.hooks is None
    assert manifest.conversation.known == "never"


def test_what_is_said_of_its_status_is_kept_as_it_is() -> None:
    status = {"title": [{"pattern": "x", "state": "idle"}], "anything": {"at": "all"}}

    assert _manifest(status=status).status == status


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("start = [", "is not TOML"),
        ("", "start is missing; a manifest needs a table [start]"),
        ("start = 7", "start is not a table"),
        ("[start]", "start.command names no program"),
        ("[start]\ncommand = 'mine'", "start.command is not a list of texts"),
        ("[start]\ncommand = ['mine', 7]", "start.command is not a list of texts"),
        ("[start]\ncomand = ['mine']", "start.command names no program"),
        ("[start]\ncommand = ['mine']\npromt = []", "start.promt is not a key; did you mean prompt?"),
        ("[start]\ncommand = ['mine']\nprompt_when = 'later'", "start.prompt_when is 'later'; use start or ready"),
        ("titel = 'x'\n[start]\ncommand = ['mine']", "titel is not a key; did you mean title?"),
        ("title = 7\n[start]\ncommand = ['mine']", "title is not a text"),
        ("[start]\ncommand = ['mine']\nprompt = ['{promt}']", "start.prompt has {promt}, which nothing is put in for"),
        ("[start]\ncommand = ['mine']\n[resume]", "resume.arguments is missing"),
        ("[start]\ncommand = ['mine']\n[conversation]\nknown = 'maybe'", "conversation.known is 'maybe'"),
        ("[start]\ncommand = ['mine']\n[conversation]\nknown = 'chosen'", "start.conversation is missing"),
        ("[start]\ncommand = ['mine']\nconversation = ['{conversation}']", "conversation.known does not say"),
        ("[start]\ncommand = ['mine']\nprompt = ['{prompt}']\nprompt_when = 'ready'", "start.prompt and prompt_when"),
        ("[start]\ncommand = ['mine']\n[environment]\nX = 1", "environment.X is not a variable with a text"),
        ("[start]\ncommand = ['mine']\n[hooks]\noption = []", "hooks.option is not a key; did you mean options?"),
        ("[start]\ncommand = ['mine']\n[file]\npath = 'x'", "file is not a list of tables"),
        ("[start]\ncommand = ['mine']\n[[file]]\ntext = 'x'", "file.path is not the path of a file"),
        ("[start]\ncommand = ['mine']\n[[file]]\npath = '../x'\ntext = 'x'", "file.path is not the path of a file"),
        ("[start]\ncommand = ['mine']\n[[file]]\npath = '/x'\ntext = 'x'", "file.path is not the path of a file"),
        ("[start]\ncommand = ['mine']\n[[file]]\npath = 'x'", "file.text and json: one of them is needed"),
        (
            "[start]\ncommand = ['mine']\n[[file]]\npath = 'x'\n[file.json]\na = [{ b = '{fodler}' }]",
            "file.json has {fodler}, which nothing is put in for",
        ),
    ],
)
def test_what_is_wrong_with_a_manifest_is_said_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    assert said in _refusal(text, tmp_path)


def test_a_persons_manifest_takes_the_place_of_the_one_that_comes_with_scrubjay(tmp_path: Path) -> None:
    (tmp_path / "claude.toml").write_text("title = 'My Claude'\n[start]\ncommand = ['my-claude']\n")
    library = Library(tmp_path)

    assert library.names() == sorted(AGENTS)
    assert library.is_own("claude")
    assert not library.is_own("codex")
    assert library.find("claude").title == "My Claude"
    assert library.find("claude").hooks is None  # the whole manifest


def test_a_persons_manifest_adds_an_agent(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[start]\ncommand = ['mine', '--tui']\n")
    library = Library(tmp_path)

    assert "mine" in library.names()
    assert library.recognise("/usr/bin/mine") == "mine"
    assert library.find("mine").start.command == ("mine", "--tui")


def test_a_broken_manifest_is_in_nobodys_way_but_its_own_agents(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("nonsense")
    library = Library(tmp_path)

    assert library.find("claude").title == "Claude Code"
    with pytest.raises(BadManifest):
        library.find("mine")


def test_a_manifest_whose_file_cannot_name_an_agent_says_so(tmp_path: Path) -> None:
    (tmp_path / "My Agent.toml").write_text("[start]\ncommand = ['x']\n")

    with pytest.raises(BadManifest, match="cannot be an agent's name"):
        Library(tmp_path).find("My Agent")


def test_an_agent_that_is_not_known_is_answered_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no agent 'clade'") as refused:
        Library(tmp_path / "nowhere").find("clade")
    assert "aider, claude, codex" in (refused.value.hint or "")
