"""``scrubjay agents``: which agents can be started by name."""

from __future__ import annotations

import shutil

import click

from scrubjay.agents.library import Library
from scrubjay.agents.manifest import Manifest
from scrubjay.cli.context import Context, emit, json_option, pass_context
from scrubjay.cli.ps_command import print_table
from scrubjay.errors import BadManifest
from scrubjay.tape.record import Json

_HEADINGS = ("NAME", "AGENT", "PROGRAM", "CAN", "MANIFEST")


@click.command("agents")
@json_option
@pass_context
def command(context: Context, *, as_json: bool) -> None:
    """List the agents that can be started with 'run --agent', and what Scrubjay can do with each."""
    library = Library(context.settings.agents)
    known = [_describe(library, name) for name in library.names()]
    if as_json:
        emit(known)
    else:
        print_table([_HEADINGS, *map(_row, known)])


def _describe(library: Library, name: str) -> Json:
    """An agent for a program."""
    described: Json = {"name": name, "manifest": str(library.path_of(name)), "own": library.is_own(name)}
    try:
        manifest = library.find(name)
    except BadManifest as error:
        return described | {"error": f"{error}; {error.hint}"}
    return described | {
        "title": manifest.title,
        "program": manifest.program,
        "path": shutil.which(manifest.program),
        "install": manifest.install,
        "features": _features(manifest),
        "error": None,
    }


def _features(manifest: Manifest) -> dict[str, str | None]:
    """What is possible, and how where there are several ways."""
    start = manifest.start
    prompt = "typed" if start.prompt_when == "ready" else "argument" if start.prompt is not None else None
    return {
        "prompt": prompt,
        "conversation": manifest.conversation.known if manifest.conversation.known != "never" else None,
        "resume": "conversation" if manifest.resume is not None else None,
        "hooks": "pod" if manifest.hooks is not None else None,
        "mcp": "pod" if manifest.mcp is not None else None,
    }


def _row(agent: Json) -> tuple[str, ...]:
    where = str(agent["manifest"]) if agent["own"] else "comes with Scrubjay"
    if agent["error"] is not None:
        return (str(agent["name"]), "-", "-", "-", str(agent["error"]))
    features = agent["features"]
    assert isinstance(features, dict)
    can = ", ".join(str(name) for name, way in features.items() if way is not None)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    found = str(agent["path"]) if agent["path"] is not None else "not found"
    if agent["path"] is None and agent["install"] is not None:
        found = f"not found: {agent['install']}"
    return (str(agent["name"]), str(agent["title"]), found, can or "start", where)
