"""Claude Code."""

from __future__ import annotations

from tests.real_agents.agents.agent import KEY, Agent, Place


def _settle(place: Place) -> dict[str, str]:
    # Without these it asks for a theme, the key, the folder, and whether it might ask less from now on.
    place.write(
        ".claude.json",
        {
            "hasCompletedOnboarding": True,
            "hasSeenAutoDefaultNudge": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY], "rejected": []},
            "projects": {str(place.project): {"hasTrustDialogAccepted": True}},
        },
    )
    # It would judge by itself otherwise which commands to ask for.
    place.write(".claude/settings.json", {"permissions": {"defaultMode": "default"}})
    return {
        "ANTHROPIC_BASE_URL": place.model_url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


CLAUDE = Agent("claude", _settle, asks="Do you want to proceed?")
