"""Qwen Code."""

from __future__ import annotations

from tests.real_agents.agents.agent import KEY, Agent, Place


def _settle(place: Place) -> dict[str, str]:
    place.write(
        ".qwen/settings.json",
        {
            "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            # Requests with tools, which would look like turns.
            "ui": {"enableFollowupSuggestions": False},
            "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
            "model": {"name": "stub-model"},
            # It would have the model judge otherwise which commands to ask for.
            "tools": {"approvalMode": "default"},
        },
    )
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{place.model_url}/v1", "OPENAI_MODEL": "stub-model"}


QWEN = Agent("qwen", _settle, asks="Allow execution", required=False)
