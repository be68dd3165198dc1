"""From a manifest to what is run for one pod: command, environment and files. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from scrubjay.agents.codex_hooks import hooks_table
from scrubjay.agents.endpoint import MCP_TOKEN_VARIABLE, McpEndpoint
from scrubjay.agents.manifest import CODEX_HOOKS, PLACEHOLDER, FileRule, Manifest, Registration
from scrubjay.errors import BadInput


@dataclass(frozen=True, slots=True)
class Launch:
    """What to run for one pod."""

    argv: tuple[str, ...]
    agent: str | None = None  #: None if it is none that is known
    arguments: tuple[str, ...] | None = None  #: those that a person gave to an agent
    environment: dict[str, str] = field(default_factory=dict[str, str])  #: to be set besides what is inherited
    files: dict[str, str] = field(default_factory=dict[str, str])  #: by their paths in the pod's folder ``agent``
    conversation: str | None = None  #: its id, where it was chosen
    type_when_ready: str | None = None  #: the first prompt, where it is typed


@dataclass(frozen=True, slots=True)
class Place:
    """What is put in for placeholders, the same for every agent of a pod."""

    folder: str  #: the pod's folder ``agent``
    hook: str  #: a shell command that reports what it is told on its standard input
    environ: Mapping[str, str]  #: what is inherited; a variable that is there is a person's own and stays as it is
    mcp: McpEndpoint | None = None  #: whose variables are set for any program, and so are not among a launch's


def launch_agent(
    manifest: Manifest, place: Place, *, arguments: tuple[str, ...], prompt: str | None, new_conversation: str
) -> Launch:
    """Start an agent by its name: a new conversation, unless the arguments say which."""
    start = manifest.start
    if begins_no_conversation(manifest, arguments):
        if prompt is not None:
            what = f"{manifest.program} {arguments[0]}"
            raise BadInput(f"{what} takes no first prompt", hint="leave --prompt out, or what is after --")
        return Launch((*start.command, *arguments), manifest.name, arguments)
    chosen = None
    if start.conversation is not None and not _is_given(manifest, arguments):
        chosen = new_conversation
    passed = start.conversation if chosen is not None and start.conversation is not None else ()
    typed = prompt is not None and start.prompt_when == "ready"
    return _launch(manifest, place, passed, arguments, prompt, typed=typed, conversation=chosen)


def resume_agent(
    manifest: Manifest, place: Place, *, arguments: tuple[str, ...], prompt: str | None, conversation: str
) -> Launch:
    """Go on with a conversation; the arguments are those it was begun with."""
    if manifest.resume is None:
        raise BadInput(f"{manifest.title} cannot go on with a conversation", hint="start it anew")
    arguments = () if begins_no_conversation(manifest, arguments) else without_conversation(manifest, arguments)
    typed = prompt is not None and manifest.resume.prompt_when == "ready"
    return _launch(
        manifest, place, manifest.resume.arguments, arguments, prompt, typed=typed, conversation=conversation
    )


def launch_command(manifest: Manifest, place: Place, argv: tuple[str, ...]) -> Launch:
    """Start what a person typed, which is this agent: as it is, but for what makes the agent report to us."""
    program, arguments = argv[0], argv[1:]
    if begins_no_conversation(manifest, arguments):
        return Launch(argv, manifest.name, arguments)
    expand = _Expansion(place, manifest)
    added = expand.registrations
    return Launch(
        argv=(program, *(expand(word) for each in added for word in each.options), *arguments),
        agent=manifest.name,
        arguments=arguments,
        environment=expand.environment(*(each.environment for each in added)),
        files=expand.files(always=False),
    )


def _launch(
    manifest: Manifest,
    place: Place,
    conversing: tuple[str, ...],
    arguments: tuple[str, ...],
    prompt: str | None,
    *,
    typed: bool,
    conversation: str | None,
) -> Launch:
    start = manifest.start
    if prompt is not None and not typed and start.prompt is None:
        raise BadInput(
            f"{manifest.title} takes no first prompt", hint="send it when it is ready: scrubjay send POD … --enter"
        )
    expand = _Expansion(place, manifest, conversation=conversation, prompt=_as_argument(manifest, prompt))
    added = expand.registrations
    told = start.prompt if prompt is not None and not typed and start.prompt is not None else ()
    options = (*start.options, *(word for each in added for word in each.options), *conversing)
    told = tuple(expand(word) for word in told)
    # A prompt comes before a person's options, some of which take all words that follow, but after a command of theirs.
    last = (*arguments, *told) if arguments and not arguments[0].startswith("-") else (*told, *arguments)
    return Launch(
        # Ours come first, for of two that contradict each other the later one holds.
        argv=(*start.command, *map(expand, options), *last),
        agent=manifest.name,
        arguments=arguments,
        environment=expand.environment(manifest.environment, *(each.environment for each in added)),
        files=expand.files(always=True),
        conversation=conversation,
        type_when_ready=prompt if typed else None,
    )


def begins_no_conversation(manifest: Manifest, arguments: tuple[str, ...]) -> bool:
    """Whether these arguments ask the agent for something else."""
    return bool(arguments) and arguments[0] in manifest.start.other_commands


def _is_given(manifest: Manifest, arguments: tuple[str, ...]) -> bool:
    return any(_gives(manifest, word) for word in arguments)


def _gives(manifest: Manifest, word: str) -> bool:
    name = word.partition("=")[0] if word.startswith("--") else word
    return name in manifest.conversation.given_by


def without_conversation(manifest: Manifest, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments without those that say which conversation it is, and without what belongs to these."""
    kept: list[str] = []
    dropping = False
    for word in arguments:
        if _gives(manifest, word):
            dropping = "=" not in word
        elif dropping and not word.startswith("-"):
            dropping = False
        else:
            kept.append(word)
            dropping = False
    return tuple(kept)


def _as_argument(manifest: Manifest, prompt: str | None) -> str | None:
    """A prompt that is taken neither for an option nor for a command of the agent."""
    if prompt is None:
        return None
    reserved = prompt in manifest.start.other_commands or prompt in manifest.conversation.given_by
    return " " + prompt if reserved or prompt.startswith("-") else prompt


class _Expansion:
    """Puts in what placeholders stand for."""

    def __init__(
        self, place: Place, manifest: Manifest, *, conversation: str | None = None, prompt: str | None = None
    ) -> None:
        self._place, self._manifest = place, manifest
        self._values = {
            "folder": place.folder,
            "hook": place.hook,
            "conversation": conversation,
            "prompt": prompt,
            "mcp_url": place.mcp.url if place.mcp is not None else None,
            "mcp_token_variable": MCP_TOKEN_VARIABLE,
        }

    def __call__(self, text: str) -> str:
        return PLACEHOLDER.sub(self._put_in, text)

    def _put_in(self, found: re.Match[str]) -> str:
        name, more = found[1], found[2]
        if name == CODEX_HOOKS:
            return hooks_table(more.split(","), self._place.hook)
        value = self._values[name]
        if value is None:
            raise BadInput(
                f"the manifest of {self._manifest.name} uses {found[0]} where it is not known",
                hint=f"correct {self._manifest.source}",
            )
        return json.dumps(value, ensure_ascii=False) if more == "json" else value

    @property
    def registrations(self) -> list[Registration]:
        """What is to be registered now."""
        mcp = self._manifest.mcp if self._place.mcp is not None else None
        return [each for each in (self._manifest.hooks, mcp) if each is not None]

    def environment(self, *wanted: Mapping[str, str]) -> dict[str, str]:
        """Variables to set: none that a person has set."""
        found = {name: self(value) for each in wanted for name, value in each.items()}
        return {name: value for name, value in found.items() if name not in self._place.environ}

    def files(self, *, always: bool) -> dict[str, str]:
        """Files to write. The parts of one JSON file become one object."""
        texts: dict[str, str] = {}
        objects: dict[str, dict[str, object]] = {}
        for file in self._manifest.files:
            if not self._is_wanted(file, always=always):
                continue
            if file.text is not None:
                texts[file.path] = self(file.text)
            else:
                part = cast("dict[str, object]", self._expand_all(file.json))
                objects[file.path] = _merge(objects.get(file.path, {}), part)
        return texts | {path: json.dumps(each, indent=1, ensure_ascii=False) for path, each in objects.items()}

    def _is_wanted(self, file: FileRule, *, always: bool) -> bool:
        if file.when == "hooks":
            return self._manifest.hooks is not None
        if file.when == "mcp":
            return self._place.mcp is not None
        return always

    def _expand_all(self, value: object) -> object:
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {name: self._expand_all(each) for name, each in cast("dict[str, object]", value).items()}
        if isinstance(value, list):
            return [self._expand_all(each) for each in cast("list[object]", value)]
        return value


def _merge(one: dict[str, object], other: dict[str, object]) -> dict[str, object]:
    merged = dict(one)
    for name, value in other.items():
        before = merged.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[name] = _merge(cast("dict[str, object]", before), cast("dict[str, object]", value))
        elif isinstance(before, list) and isinstance(value, list):
            merged[name] = [*cast("list[object]", before), *cast("list[object]", value)]
        else:
            merged[name] = value
    return merged
