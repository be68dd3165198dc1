"""The rules by which an agent's status is told: its manifest's, then those for any agent."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from scrubjay.agents.library import Library
from scrubjay.errors import BadManifest
from scrubjay.status.rules import BadRules, Rules, Table, parse_rules

_GENERIC = Path(__file__).parent / "generic.toml"


@cache
def generic_rules() -> Rules:
    """The rules for an agent that nothing else is known of."""
    return parse_rules(tomllib.loads(_GENERIC.read_text(encoding="utf-8")))


def rules_for(agent: str | None, library: Library) -> Rules:
    """The rules for an agent, by name; one that is not known has the generic ones.

    BadManifest if those in its manifest cannot be used.
    """
    if agent is None or library.path_of(agent) is None:
        return generic_rules()
    manifest = library.find(agent)
    return parse_status(manifest.status, manifest.source).before(generic_rules())


def parse_status(table: Table, source: str) -> Rules:
    """The rules in a manifest's table ``[status]``; BadManifest says what is wrong with them."""
    try:
        return parse_rules(table)
    except BadRules as error:
        raise BadManifest(source, error.where, error.why, hint="docs/agents.md shows how it is written") from error
