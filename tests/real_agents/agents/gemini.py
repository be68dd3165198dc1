"""Gemini CLI."""

from __future__ import annotations

import json
import re

from tests.real_agents.agents.agent import KEY, Agent, Place
from tests.support.paths import DOCS

_PAGE = DOCS / "agents.md"


def _settle(place: Place) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "ide": {"hasSeenNudge": True},
    }
    # Its person has once put in what the page on agents shows.
    place.write(".gemini/settings.json", settings | json.loads(_shown('{"mcpServers"')))
    place.write(".gemini/policies/scrubjay.toml", _shown("[[rule]]"))
    return {"GOOGLE_GEMINI_BASE_URL": place.model_url, "GEMINI_API_KEY": KEY}


def _shown(beginning: str) -> str:
    """The example of the page that begins so."""
    examples = re.findall(r"^```\w+\n(.*?)^```", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return next(example for example in examples if example.startswith(beginning))


GEMINI = Agent("gemini", _settle, asks="Allow execution")
