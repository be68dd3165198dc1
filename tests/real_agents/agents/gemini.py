"""Gemini CLI."""

from __future__ import annotations

from real_agents.agents.agent import KEY, Agent, Place


def _settle(place: Place) -> dict[str, str]:
    place.write(
        ".gemini/settings.json",
        {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "ide": {"hasSeenNudge": True},
        },
    )
    return {"GOOGLE_GEMINI_BASE_URL": place.model_url, "GEMINI_API_KEY": KEY}


GEMINI = Agent("gemini", _settle)
