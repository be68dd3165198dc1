"""Tools: declared as plain functions, called with whatever an agent sends, answered in one shape.

A tool is an async function of a ``Desk`` and of what the agent gives; its annotations are the schema, its docstring is
what the agent reads, and it returns JSON or raises a ScrubjayError::

    @tool(read_only=True)
    async def list_pods(
        desk: Desk,
        include_ended: Annotated[bool, Field(description="Also those that have ended.")] = False,
    ) -> Json:
        \"""The pods you may see.\"""

Annotations are resolved when the module is loaded, so what they name has to be imported, not only for type checkers.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, cast, get_type_hints

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from scrubjay.errors import BadInput, ScrubjayError
from scrubjay.fleet.access import Principal
from scrubjay.fleet.untrusted import reveal
from scrubjay.replay.instants import wall_of
from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.coordination import Coordination
from scrubjay.server.errors import code_of
from scrubjay.server.refusals import error_body
from scrubjay.server.request_context import RequestContext
from scrubjay.server.tower import Tower
from scrubjay.tape.record import Json

_P = ParamSpec("_P")

_COMPLAINTS_MAX = 5  # about the arguments of one call

log = structlog.get_logger()


class NoSuchTool(BadInput):
    """There is no tool of that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        shown = name if len(name) <= 60 else name[:60] + "…"
        super().__init__(f"there is no tool {shown!r}", hint="tools/list names those there are")


class BadArguments(BadInput):
    """What a tool was called with is not what it takes."""

    def __init__(self, tool: str, complaints: Iterable[str], parameters: Iterable[str]) -> None:
        takes = ", ".join(parameters) or "no arguments"
        super().__init__("; ".join(complaints), hint=f"{tool} takes {takes}")


@dataclass(frozen=True, slots=True)
class Desk:
    """What a tool has before it: the server, and who has called."""

    coordination: Coordination
    context: RequestContext

    @property
    def tower(self) -> Tower:
        """The server without its doors."""
        return self.coordination.tower

    @property
    def asker(self) -> Principal:
        """Who has called."""
        return self.context.principal

    @property
    def actor(self) -> Actor:
        """Who has called, as others know them."""
        return self.coordination.reception.actor(self.asker)

    def instant(self, raw: str | None) -> int | None:
        """The wall clock an agent means; None for now."""
        return None if raw is None else wall_of(raw, self.tower.clock.wall_us())


@dataclass(frozen=True, slots=True)
class Tool:
    """Something an agent can have done."""

    name: str
    description: str
    parameters: type[BaseModel]
    function: Callable[..., Awaitable[Json]]
    read_only: bool  #: it changes nothing
    destructive: bool  #: it may take something away
    idempotent: bool  #: done twice is the same as done once

    def schema(self) -> Json:
        """What it takes, as JSON Schema."""
        schema = self.parameters.model_json_schema(schema_generator=_Untitled)
        schema.pop("title", None)
        schema.pop("description", None)
        for name, field in cast(dict[str, Json], schema.get("properties", {})).items():
            schema["properties"][name] = _without_null(field)
        return schema

    async def run(self, desk: Desk, raw: Mapping[str, object]) -> Json:
        """Carry it out; BadArguments if it does not take these."""
        try:
            given = self.parameters.model_validate(raw)
        except ValidationError as error:
            raise BadArguments(self.name, _complaints(error), self.parameters.model_fields) from error
        return await self.function(desk, **{name: getattr(given, name) for name in self.parameters.model_fields})


def tool(
    *, read_only: bool = False, destructive: bool = False, idempotent: bool = False
) -> Callable[[Callable[Concatenate[Desk, _P], Awaitable[Json]]], Tool]:
    """Make a function a tool, of the same name."""

    def declare(function: Callable[Concatenate[Desk, _P], Awaitable[Json]]) -> Tool:
        return Tool(
            name=function.__name__,
            description=inspect.getdoc(function) or "",
            parameters=_parameters_of(function),
            function=function,
            read_only=read_only,
            destructive=destructive,
            idempotent=idempotent or read_only,
        )

    return declare


def _parameters_of(function: Callable[..., object]) -> type[BaseModel]:
    """A model of what a function takes after its desk."""
    hints = get_type_hints(function, include_extras=True)
    _, *parameters = inspect.signature(function).parameters.values()
    fields: dict[str, Any] = {
        parameter.name: (hints[parameter.name], ... if parameter.default is parameter.empty else parameter.default)
        for parameter in parameters
    }
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)


class _Untitled(GenerateJsonSchema):
    """A schema without titles, which say a parameter's name once more."""

    def field_title_should_be_set(self, schema: object) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        del schema
        return False


def _without_null(field: Json) -> Json:
    """The schema of a parameter that can be left out, without saying so a second and third time."""
    choices = [choice for choice in cast("list[Json]", field.get("anyOf", [])) if choice != {"type": "null"}]
    if "anyOf" not in field or len(choices) == len(cast("list[Json]", field["anyOf"])):
        return field
    rest = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
    return choices[0] | rest if len(choices) == 1 else {"anyOf": choices, **rest}


def _complaints(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False, include_context=False, include_input=False)[:_COMPLAINTS_MAX]
    return [f"{'.'.join(str(part)[:60] for part in one['loc'])}: {one['msg']}"[:300] for one in found]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call of a tool came to."""

    content: Json
    text: str  #: the same for a client that knows only text; of a failure, its sentence
    failed: bool = False


class Toolbox:
    """All tools of one server."""

    def __init__(self, coordination: Coordination, tools: Iterable[Tool]) -> None:
        self._coordination = coordination
        self._tools: dict[str, Tool] = {}
        for one in tools:
            assert one.name not in self._tools, f"two tools are called {one.name}"
            self._tools[one.name] = one

    @property
    def tools(self) -> list[Tool]:
        """All of them, in the order in which they are listed."""
        return list(self._tools.values())

    async def call(self, name: str, raw: Mapping[str, object], context: RequestContext) -> Answer:
        """Call a tool for somebody. What goes wrong is an answer, too."""
        try:
            found = self._tools.get(name)
            if found is None:
                raise NoSuchTool(name)
            return _success(await found.run(Desk(self._coordination, context), raw))
        except ScrubjayError as error:
            return failure(error)
        except Exception:  # the agent goes on; what it was is in the log, for it may hold what nobody else should see
            log.exception("tool.failed", tool=name, principal=context.principal.id)
            return _failure("internal_error", "something went wrong here", "the server's log says what")


def failure(error: ScrubjayError) -> Answer:
    """What an agent is told when something cannot be done."""
    return _failure(code_of(error), str(error), error.hint)


def _failure(code: str, message: str, hint: str | None) -> Answer:
    text = message if hint is None else f"{message}; {hint}"
    return Answer(cast(Json, error_body(code, reveal(message), hint)), reveal(text), failed=True)


def _success(content: Json) -> Answer:
    seen = cast(Json, _revealed(content))
    return Answer(seen, json.dumps(seen, ensure_ascii=False))


def _revealed(value: object) -> object:
    """The same with nothing hidden in any text, much of which others have written, and without what is not there."""
    match value:
        case str():
            return reveal(value)
        case dict():
            there = ((name, each) for name, each in cast(Json, value).items() if each is not None)
            return {reveal(name): _revealed(each) for name, each in there}
        case list() | tuple():
            return [_revealed(each) for each in cast("list[object]", value)]
        case _:
            return value
