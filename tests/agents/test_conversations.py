"""Where agents keep conversations, by their manifests' patterns and the pod's environment."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from scrubjay.agents.conversations import Place, claims_of, find_conversation, is_conversation_id
from scrubjay.agents.library import Library
from scrubjay.agents.manifest import ConversationRules, parse_manifest
from scrubjay.errors import BadManifest
from tests.support.paths import DOCS

_DOCS = DOCS
_ID = "01a1ea09-6ea6-71f1-83a1-f4b9416a713a"


def _write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("agent", "path", "variables"),
    [
        ("claude", f"home/.claude/projects/-work-x/{_ID}.jsonl", {}),
        ("claude", f"set/projects/-work-x/{_ID}.jsonl", {"CLAUDE_CONFIG_DIR": "set"}),
        ("codex", f"home/.codex/sessions/2026/11/17/rollout-2026-11-17T15-04-09-{_ID}.jsonl", {}),
        ("codex", f"set/sessions/2026/11/17/rollout-2026-11-17T15-04-09-{_ID}.jsonl", {"CODEX_HOME": "set"}),
        ("aider", f"cwd/.aider.chat.history.{_ID}.md", {}),
        ("qwen", f"home/.qwen/projects/x/chats/{_ID}.jsonl", {}),
        ("copilot", f"home/.copilot/session-state/{_ID}", {}),
    ],
)
def test_a_conversation_with_a_file_of_its_own_is_found(
    tmp_path: Path, agent: str, path: str, variables: dict[str, str]
) -> None:
    rules = Library(None).find(agent).conversation
    environ = {"HOME": str(tmp_path / "home")} | {name: str(tmp_path / value) for name, value in variables.items()}
    place = Place(tmp_path / "cwd", environ)
    assert find_conversation(rules, _ID, place).there is False

    file = _write(tmp_path / path)

    assert find_conversation(rules, _ID, place).files == (file,)
    assert find_conversation(rules, _ID[:-1] + "b", place).there is False


@pytest.mark.parametrize(
    ("agent", "path"),
    [
        ("gemini", "home/.gemini/tmp/project/chats/session-2026-11-17T15-04-01a1ea09.jsonl"),
        ("opencode", "home/.local/share/opencode/opencode.db"),
        ("opencode", "home/.local/share/opencode/opencode.db-wal"),
    ],
)
def test_a_conversation_in_a_file_of_many_is_found_by_its_id(tmp_path: Path, agent: str, path: str) -> None:
    rules = Library(None).find(agent).conversation
    place = Place(tmp_path, {"HOME": str(tmp_path / "home")})
    _write(tmp_path / path, "")
    assert find_conversation(rules, _ID, place).there is False

    _write(tmp_path / path, f"\0\0 {_ID} \0")

    kept = find_conversation(rules, _ID, place)
    assert (kept.there, kept.files) == (True, ())  # whoever has it open may be at another one


def test_a_name_that_looks_like_a_pattern_is_only_a_name(tmp_path: Path) -> None:
    rules = ConversationRules(
        files=("$SET/[a]/{conversation}.txt", "$UNSET/{conversation}.txt", "~/{conversation}.txt")
    )
    home, odd = tmp_path / "h*me", tmp_path / "[b]"
    place = Place(tmp_path, {"HOME": str(home), "SET": str(odd)})
    _write(tmp_path / "home" / "one.txt")
    _write(tmp_path / "b" / "a" / "one.txt")
    assert find_conversation(rules, "one", place).files == ()

    found = [_write(odd / "a" / "one.txt"), _write(home / "one.txt")]

    assert list(find_conversation(rules, "one", place).files) == found


def test_a_manifest_that_does_not_say_where_leaves_it_open(tmp_path: Path) -> None:
    assert find_conversation(ConversationRules(), _ID, Place(tmp_path, {})).there is None


def test_what_an_agent_says_of_its_processes_is_read_and_what_is_no_such_thing_is_not(tmp_path: Path) -> None:
    rules = Library(None).find("claude").conversation
    live = tmp_path / ".claude" / "sessions"
    _write(live / "7.json", json.dumps({"pid": 7, "sessionId": _ID, "status": "idle"}))
    for number, text in enumerate(("", "{half", "[1]", '{"pid": "7"}', '{"sessionId": "x"}', "\xff")):
        _write(live / f"{100 + number}.json", text)
    _write(live / "7.secret.key", json.dumps({"pid": 8, "sessionId": _ID}))

    (claim,) = claims_of(rules, Place(tmp_path, {"HOME": str(tmp_path)}))

    assert claim.pid == 7
    assert _ID in claim.words


@pytest.mark.parametrize("text", ["", "-x", "--resume", "a/b", "..", "a b", "é", "*", "a" * 200, "x\n"])
def test_what_could_be_an_option_a_path_or_a_pattern_is_no_id(text: str) -> None:
    assert not is_conversation_id(text)
    assert is_conversation_id(_ID)
    assert is_conversation_id("ses_e15f6468affed7IS04Ex2yYuIg")


def test_a_file_that_is_the_same_for_all_conversations_is_refused() -> None:
    values = {"start": {"command": ["x"]}, "conversation": {"files": ["~/.x/all.db"]}}

    with pytest.raises(BadManifest, match=r"conversation.files has '~/.x/all.db'.*same for all") as refused:
        parse_manifest("x", values, "x.toml")
    assert "inside" in str(refused.value.hint)


def test_every_key_is_on_the_page_on_agents_and_every_agent_on_the_page_on_resuming() -> None:
    agents, page = (_DOCS / "agents.md").read_text(), (_DOCS / "resume.md").read_text()

    row = re.search(r"^\| `\[conversation\]` \|(.*)$", agents, re.MULTILINE)
    assert row is not None
    assert {field.name for field in dataclasses.fields(ConversationRules)} <= set(re.findall(r"`(\w+)`", row[1]))
    for name in Library(None).names():
        assert f"\n| {name} |" in page


def test_every_kind_of_finding_is_on_the_page_on_resuming() -> None:
    page = (_DOCS / "resume.md").read_text()
    source = (_DOCS.parent / "src" / "scrubjay" / "runner" / "findings.py").read_text()
    kinds = re.findall(r'^    "(\w+)",', source, re.MULTILINE)

    assert len(kinds) > 10
    for kind in kinds:
        assert f"`{kind}`" in page
