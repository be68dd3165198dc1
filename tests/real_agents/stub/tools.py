"""The tool an agent offers for what a script wants done, and the arguments it takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.real_agents.stub.script import Call, Question, Shell

Schemas = Mapping[str, dict[str, Any]]  # of the arguments, by the tool's name

_SHELLS = ("Bash", "exec_command", "shell_command", "shell", "bash", "run_shell_command")
# Codex runs in its sandbox without asking, and asks for what is to run outside.
_ASKING = {"sandbox_permissions": "require_escalated", "justification": "May it run?"}
_FILLER: dict[str, Any] = {"string": "as asked", "boolean": False, "integer": 30_000, "number": 30_000, "array": []}

_QUESTIONS: dict[str, dict[str, Any]] = {  # the tool's name, and what its questions have besides what all have
    "AskUserQuestion": {"multiSelect": False},
    "request_user_input": {"id": "answer"},
    "question": {"multiple": False},
    "ask_user": {"type": "choice"},
    "ask_user_question": {"multiSelect": False},
}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call as the agent's own tool takes it."""

    name: str
    arguments: dict[str, Any]


def takes_turns(schemas: Schemas) -> bool:
    """Whether a request with these tools is a turn of the conversation, and not one for a title or the like."""
    return any(name in schemas for name in _SHELLS)


def translate(call: Shell | Question | Call, schemas: Schemas) -> ToolUse:
    """What to call for it; AssertionError if the agent offers nothing like it."""
    match call:
        case Shell():
            name = _offered(_SHELLS, schemas)
            return ToolUse(name, _shell_arguments(call, schemas[name]))
        case Question():
            name = _offered(tuple(_QUESTIONS), schemas)
            options = [{"label": option, "description": f"choose {option}"} for option in call.options]
            question = {"question": call.text, "header": "Choice", "options": options, **_QUESTIONS[name]}
            return ToolUse(name, {"questions": [question]})
        case Call():
            name = next((name for name in schemas if name.endswith(call.name)), None)
            assert name is not None, f"no tool {call.name} among {sorted(schemas)}"
            return ToolUse(name, call.arguments)


def _offered(known: tuple[str, ...], schemas: Schemas) -> str:
    name = next((name for name in known if name in schemas), None)
    assert name is not None, f"none of {known} among {sorted(schemas)}"
    return name


def _shell_arguments(call: Shell, schema: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, dict[str, Any]] = schema.get("properties") or {}
    where = "cmd" if "cmd" in properties else "command"
    as_list = properties.get(where, {}).get("type") == "array"
    arguments: dict[str, Any] = {where: ["bash", "-c", call.command] if as_list else call.command}
    for name in schema.get("required") or ():
        if name not in arguments:
            arguments[name] = filler(properties.get(name, {}), "as asked")
    if call.asks:
        arguments |= {name: value for name, value in _ASKING.items() if name in properties}
    return arguments


def filler(schema: dict[str, Any], text: str) -> Any:
    """Some value of a schema, with ``text`` where there is to be text."""
    kind = str(schema.get("type", "")).lower()
    if schema.get("enum"):
        return schema["enum"][0]
    if kind == "object":
        properties: dict[str, dict[str, Any]] = schema.get("properties") or {}
        return {name: filler(inner, text) for name, inner in properties.items()}
    return text if kind == "string" else _FILLER.get(kind)
