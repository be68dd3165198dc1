"""What a manifest says of an agent, parsed and checked. Implements docs/agents.md. Pure.

A manifest is data: texts with placeholders such as ``{folder}``. What they become for one pod is in ``launch``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar, cast, get_args

from scrubjay.errors import BadManifest

Known = Literal["chosen", "hook", "never"]
PromptWhen = Literal["start", "ready"]
When = Literal["always", "hooks", "mcp"]

# What may stand in a text between braces; ``:json`` after it gives it as a JSON string, quotes and all.
PLACEHOLDERS = frozenset({"folder", "hook", "conversation", "prompt", "mcp_url", "mcp_token_variable"})
CODEX_HOOKS = "codex_hooks"  # for events of Codex, as in {codex_hooks:Stop,Interrupt}: see ``codex_hooks``
PLACEHOLDER = re.compile(r"\{([a-z_]+)(?::([A-Za-z,]+))?\}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_Choice = TypeVar("_Choice", bound=str)


@dataclass(frozen=True, slots=True)
class StartRules:
    """How it is started."""

    command: tuple[str, ...]
    options: tuple[str, ...] = ()  #: always passed
    prompt: tuple[str, ...] | None = None  #: how it takes its first prompt; None if it cannot be told at its start
    prompt_when: PromptWhen = "start"  #: ``ready``: the prompt is typed once it waits for one
    conversation: tuple[str, ...] | None = None  #: how the id of a new conversation is chosen
    other_commands: frozenset[str] = frozenset()  #: first words of its own that begin no conversation


@dataclass(frozen=True, slots=True)
class ConversationRules:
    """How the id of its conversation becomes known."""

    known: Known = "never"
    given_by: frozenset[str] = frozenset()  #: arguments by which a person says themselves which conversation it is
    files: tuple[str, ...] = ()  #: patterns of files that hold one conversation each
    inside: tuple[str, ...] = ()  #: patterns of files that hold many, each with its id in it
    live: str | None = None  #: a pattern of files, one for each process of the agent that says which it has open


@dataclass(frozen=True, slots=True)
class ResumeRules:
    """How it goes on with a conversation."""

    arguments: tuple[str, ...]
    prompt_when: PromptWhen = "start"


@dataclass(frozen=True, slots=True)
class Registration:
    """How something is made known to it, for one pod only."""

    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class FileRule:
    """A file in the pod's folder ``agent``: a text, or a part of a JSON object."""

    path: str
    when: When
    text: str | None = None
    json: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One agent."""

    name: str
    title: str
    source: str  #: the file it stands in
    start: StartRules
    install: str | None = None  #: the command that installs it
    conversation: ConversationRules = ConversationRules()
    resume: ResumeRules | None = None
    hooks: Registration | None = None
    mcp: Registration | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    files: tuple[FileRule, ...] = ()
    status: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def program(self) -> str:
        """What must be on the PATH."""
        return self.start.command[0]


def is_agent_name(name: str) -> bool:
    """Whether an agent may have that name."""
    return _NAME.fullmatch(name) is not None


def parse_manifest(name: str, values: Mapping[str, object], source: str) -> Manifest:
    """The agent a manifest describes; BadManifest names the key that cannot be used."""
    top = _Table(values, source, "")
    start, conversation = top.table("start"), top.table("conversation", required=False)
    manifest = Manifest(
        name=name,
        title=top.text("title") or name,
        source=source,
        install=top.text("install"),
        start=_parse_start(start),
        conversation=ConversationRules(
            known=conversation.choice("known", get_args(Known), default="never"),
            given_by=frozenset(conversation.words("given_by")),
            files=conversation.words("files"),
            inside=conversation.words("inside"),
            live=conversation.text("live"),
        ),
        resume=_parse_resume(top, start),
        hooks=_parse_registration(top, "hooks"),
        mcp=_parse_registration(top, "mcp"),
        environment=top.variables("environment"),
        files=tuple(_parse_file(file) for file in top.tables("file")),
        status=top.table("status", required=False).values,
    )
    conversation.refuse_others()
    top.refuse_others()
    _check_sense(manifest, top)
    return manifest


def _parse_start(start: _Table) -> StartRules:
    command = start.words("command")
    if not command:
        raise start.bad("command", "names no program", hint='write command = ["NAME"]')
    rules = StartRules(
        command=command,
        options=start.words("options"),
        prompt=start.words("prompt") if start.has("prompt") else None,
        prompt_when=start.choice("prompt_when", get_args(PromptWhen), default="start"),
        conversation=start.words("conversation") if start.has("conversation") else None,
        other_commands=frozenset(start.words("other_commands")),
    )
    start.refuse_others()
    return rules


def _parse_resume(top: _Table, start: _Table) -> ResumeRules | None:
    if not top.has("resume"):
        return None
    resume = top.table("resume")
    arguments = resume.words("arguments")
    if not arguments:
        raise resume.bad("arguments", "is missing", hint='write arguments = ["--resume", "{conversation}"]')
    at_start = start.choice("prompt_when", get_args(PromptWhen), default="start")
    rules = ResumeRules(arguments, resume.choice("prompt_when", get_args(PromptWhen), default=at_start))
    resume.refuse_others()
    return rules


def _parse_registration(top: _Table, name: str) -> Registration | None:
    if not top.has(name):
        return None
    table = top.table(name)
    registration = Registration(options=table.words("options"), environment=table.variables("environment"))
    table.refuse_others()
    return registration


def _parse_file(file: _Table) -> FileRule:
    path = file.text("path")
    if path is None or path.startswith("/") or not all(part.strip(".") for part in path.split("/")):
        raise file.bad("path", "is not the path of a file in the pod's folder", hint='write path = "settings.json"')
    text, json = file.text("text"), file.table("json", required=False)
    if (text is None) == (not json.values):
        raise file.bad("text", "and json: one of them is needed", hint="text is written as it is, json as JSON")
    rule = FileRule(
        path=path,
        when=file.choice("when", get_args(When), default="always"),
        text=text,
        json=json.values if text is None else None,
    )
    _check_placeholders(file, "json" if text is None else "text", rule.json if text is None else text)
    file.refuse_others()
    return rule


def _check_sense(manifest: Manifest, top: _Table) -> None:
    start = manifest.start
    if start.prompt is not None and start.prompt_when == "ready":
        raise top.bad("start.prompt", "and prompt_when: a prompt that is typed is no argument", hint="remove one")
    if start.conversation is not None and manifest.conversation.known != "chosen":
        raise top.bad("conversation.known", "does not say that its id is chosen", hint='write known = "chosen"')
    for pattern in manifest.conversation.files:
        if "{conversation}" not in pattern:
            raise top.bad(
                "conversation.files",
                f"has {pattern!r}, which is the same for all conversations",
                hint="write {conversation} into it, or use inside",
            )
    if manifest.conversation.known == "chosen" and start.conversation is None:
        raise top.bad(
            "start.conversation", "is missing", hint='write conversation = ["--session-id", "{conversation}"]'
        )


class _Table:
    """A table of a manifest, each value checked when it is asked for."""

    def __init__(self, values: Mapping[str, object], source: str, path: str) -> None:
        self.values, self._source, self._path = values, source, path
        self._asked: set[str] = set()

    def has(self, name: str) -> bool:
        self._asked.add(name)
        return name in self.values

    def text(self, name: str) -> str | None:
        value = self._find(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value or "\0" in value:
            raise self.bad(name, "is not a text", hint=f'write {name} = "…"')
        return value

    def words(self, name: str) -> tuple[str, ...]:
        value = self._find(name)
        if value is None:
            return ()
        listed = cast("list[object]", value) if isinstance(value, list) else [None]
        words = tuple(word for word in listed if isinstance(word, str) and "\0" not in word)
        if len(words) != len(listed):
            raise self.bad(name, "is not a list of texts", hint=f'write {name} = ["…", "…"]')
        _check_placeholders(self, name, list(words))
        return words

    def choice(self, name: str, choices: tuple[_Choice, ...], *, default: _Choice) -> _Choice:
        value = self._find(name)
        if value is None:
            return default
        for choice in choices:
            if value == choice:
                return choice
        raise self.bad(name, f"is {value!r}", hint=f"use {' or '.join(choices)}")

    def table(self, name: str, *, required: bool = True) -> _Table:
        value = self._find(name)
        if value is None and required:
            raise self.bad(name, "is missing", hint=f"a manifest needs a table [{name}]")
        if value is not None and not isinstance(value, dict):
            raise self.bad(name, "is not a table", hint=f"write [{self._full(name)}] on a line of its own")
        return _Table(cast("dict[str, object]", value or {}), self._source, self._full(name))

    def tables(self, name: str) -> list[_Table]:
        value = self._find(name)
        listed = cast("list[object]", value) if isinstance(value, list) else [] if value is None else [None]
        found = [cast("dict[str, object]", each) for each in listed if isinstance(each, dict)]
        if len(found) != len(listed):
            raise self.bad(name, "is not a list of tables", hint=f"write [[{name}]] on a line of its own")
        return [_Table(each, self._source, self._full(name)) for each in found]

    def variables(self, name: str) -> dict[str, str]:
        table = self.table(name, required=False)
        for key, value in table.values.items():
            if not _VARIABLE.fullmatch(key) or not isinstance(value, str) or "\0" in value:
                raise table.bad(key, "is not a variable with a text", hint='write NAME = "…"')
            _check_placeholders(table, key, value)
        return cast("dict[str, str]", dict(table.values))

    def refuse_others(self) -> None:
        """BadManifest if there is a key that nobody asked for: it is a mistake, or for another version."""
        for name in self.values:
            if name not in self._asked:
                from difflib import get_close_matches

                near = get_close_matches(name, self._asked, 1)
                known = ", ".join(sorted(self._asked))
                raise self.bad(name, "is not a key", hint=f"did you mean {near[0]}?" if near else f"keys are {known}")

    def bad(self, name: str, why: str, *, hint: str) -> BadManifest:
        return BadManifest(self._source, self._full(name), why, hint=hint)

    def _full(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _find(self, name: str) -> object:
        self._asked.add(name)
        return self.values.get(name)


def _check_placeholders(table: _Table, name: str, value: object) -> None:
    if isinstance(value, str):
        for word, more in PLACEHOLDER.findall(value):
            if word == CODEX_HOOKS and more:
                continue
            if word not in PLACEHOLDERS or more not in ("", "json"):
                known = ", ".join(f"{{{each}}}" for each in sorted(PLACEHOLDERS))
                raise table.bad(name, f"has {{{word}}}, which nothing is put in for", hint=f"use any of {known}")
    elif isinstance(value, dict):
        for each in cast("dict[str, object]", value).values():
            _check_placeholders(table, name, each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            _check_placeholders(table, name, each)
